package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"

	"remit/internal/settings"
)

// logCalls bounds the requests for lines of logs. AWS takes five a second.
const logCalls = 50

// A reading is a function's line about the settings that it has read.
type reading struct {
	At       time.Time `json:"timestamp"`
	Function string    `json:"function"`
	Of       string    `json:"settings"` // a settingsTable's kind
	Version  uint64    `json:"settings_version"`
}

// settingsInUse returns the check that no function reads settings older than the stored
// ones. It shows the lowest version that each has read in the last five minutes.
func (e *examination) settingsInUse(a *account) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		tables, err := e.settings(ctx)
		if err != nil {
			return "", err
		}
		readings, minutes, err := a.readings(ctx, time.Now())
		if err != nil {
			return "", err
		}
		saw := []string{}
		for _, t := range tables {
			stored, lowest := t.stamp(), map[string]uint64{}
			for _, r := range readings {
				if r.Of != t.kind() {
					continue
				}
				if v, seen := lowest[r.Function]; !seen || r.Version < v {
					lowest[r.Function] = r.Version
				}
				if r.Version < stored.Version && r.At.After(stored.At.Add(settings.MaxAge)) {
					err = errors.Join(err, fmt.Errorf("%s read version %d of the settings of %s at %s, and version %d is stored since %s",
						r.Function, r.Version, t.kind(), stamp(r.At), stored.Version, stamp(stored.At)))
				}
			}
			for _, function := range slices.Sorted(maps.Keys(lowest)) {
				saw = append(saw, fmt.Sprintf("%s %d of %s", function, lowest[function], t.kind()))
			}
		}
		text := "no function has read any"
		if len(saw) > 0 {
			text = "lowest: " + strings.Join(saw, ", ") + ","
		}
		text += " in the last five minutes"
		if minutes < 5 {
			text += fmt.Sprintf("; the logs are long, and were read for the last %d minutes and some of the one before", minutes)
		}
		return text, err
	}
}

// readings returns the lines of the last five minutes, or of as many as logCalls requests
// show, the last ones first.
func (a *account) readings(ctx context.Context, now time.Time) (all []reading, minutes int, err error) {
	resources, err := a.resources(ctx)
	if err != nil {
		return nil, 0, err
	}
	logs, calls, pattern := cloudwatchlogs.NewFromConfig(a.aws), 0, `"`+settings.ReadLine+`"`
	for minutes = range 5 {
		end := now.Add(-time.Duration(minutes) * time.Minute)
		for _, r := range resources {
			if id := aws.ToString(r.LogicalResourceId); id != "RequestsLogGroup" &&
				id != "SettlementLogGroup" { // those of functions that read settings
				continue
			}
			pages := cloudwatchlogs.NewFilterLogEventsPaginator(logs, &cloudwatchlogs.FilterLogEventsInput{
				LogGroupName: r.PhysicalResourceId, FilterPattern: &pattern,
				StartTime: aws.Int64(end.Add(-time.Minute).UnixMilli()), EndTime: aws.Int64(end.UnixMilli()),
			})
			for pages.HasMorePages() {
				if calls++; calls > logCalls {
					return all, minutes, nil
				}
				page, err := pages.NextPage(ctx)
				if err != nil {
					return nil, 0, fmt.Errorf("reading the functions' logs: %w", err)
				}
				for _, event := range page.Events {
					var line reading
					if json.Unmarshal([]byte(aws.ToString(event.Message)), &line) == nil {
						all = append(all, line)
					}
				}
			}
		}
	}
	return all, 5, nil
}
