package doctor

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

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/cli/operator/setting"
	"github.com/remit-payouts/remit/internal/evm/settings"
)

// logCalls bounds the requests for lines of logs. AWS takes five a second.
const logCalls = 50

// A reading is a function's line about the settings that it has read.
type reading struct {
	At       time.Time `json:"timestamp"`
	Function string    `json:"function"`
	Of       string    `json:"settings"` // a setting.Table's kind
	Version  uint64    `json:"settings_version"`
}

// settingsInUse finds functions that read settings older than the stored
// ones. It shows the lowest version that each has read in the last five minutes.
func (e *examination) settingsInUse(ctx context.Context) (string, error) {
	tables, err := setting.Read(ctx, e.Deployment)
	if err != nil {
		return "", err
	}
	readings, minutes, err := e.readings(ctx, time.Now())
	if err != nil {
		return "", err
	}
	result := []string{}
	for _, t := range tables {
		stored, lowest := t.Stamp(), map[string]uint64{}
		for _, r := range readings {
			if r.Of != t.Kind() {
				continue
			}
			if v, seen := lowest[r.Function]; !seen || r.Version < v {
				lowest[r.Function] = r.Version
			}
			if r.Version < stored.Version && r.At.After(stored.At.Add(settings.MaxAge)) {
				err = errors.Join(err, fmt.Errorf("%s read version %d of the settings of %s at %s, and version %d is stored since %s",
					r.Function, r.Version, t.Kind(), deployed.Stamp(r.At), stored.Version, deployed.Stamp(stored.At)))
			}
		}
		for _, function := range slices.Sorted(maps.Keys(lowest)) {
			result = append(result, fmt.Sprintf("%s %d of %s", function, lowest[function], t.Kind()))
		}
	}
	text := "no function has read any"
	if len(result) > 0 {
		text = "lowest: " + strings.Join(result, ", ") + ","
	}
	text += " in the last five minutes"
	if minutes < 5 {
		text += fmt.Sprintf("; the logs are long, and were read for the last %d minutes and some of the one before", minutes)
	}
	return text, err
}

// readings returns the lines of the last five minutes, or of as many as logCalls requests
// show, the last ones first.
func (e *examination) readings(ctx context.Context, now time.Time) (all []reading, minutes int, err error) {
	resources, err := e.Account.Resources(ctx)
	if err != nil {
		return nil, 0, err
	}
	logs, calls, pattern := cloudwatchlogs.NewFromConfig(e.Account.AWS), 0, `"`+settings.ReadLine+`"`
	for minutes = range 5 {
		end := now.Add(-time.Duration(minutes) * time.Minute)
		for _, r := range resources {
			if r.ID != "RequestsLogGroup" && r.ID != "SettlementLogGroup" { // of functions that read settings
				continue
			}
			pages := cloudwatchlogs.NewFilterLogEventsPaginator(logs, &cloudwatchlogs.FilterLogEventsInput{
				LogGroupName: &r.Name, FilterPattern: &pattern,
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
