package preflight

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/cloudtrail"
	"github.com/aws/aws-sdk-go-v2/service/cloudtrail/types"
)

// trail checks for a trail of management events, reads included: only CloudTrail reports
// reads to the alarm of a read signing key.
func (f *flight) trail(ctx context.Context) (string, error) {
	if cmp.Or(f.parameters["AlarmTopicArn"], f.parameters["UrgentTopicArn"]) == "" {
		return "", nil
	}
	client := cloudtrail.NewFromConfig(f.aws)
	found, err := client.DescribeTrails(ctx, nil)
	if err != nil {
		return "", err
	}
	mend, unclears := "", ""
	for _, t := range found.TrailList {
		status, err := client.GetTrailStatus(ctx, &cloudtrail.GetTrailStatusInput{Name: t.TrailARN})
		var selected *cloudtrail.GetEventSelectorsOutput
		if err == nil {
			selected, err = client.GetEventSelectors(ctx, &cloudtrail.GetEventSelectorsInput{TrailName: t.TrailARN})
		}
		if err != nil {
			unclears = aws.ToString(t.TrailARN)
			continue
		}
		records, logging := f.records(selected), aws.ToBool(status.IsLogging)
		if records && logging {
			return "", nil
		}
		if at, err := arn.Parse(aws.ToString(t.TrailARN)); err == nil && at.AccountID != f.account {
			continue // the organization's, which others change
		}
		where := " --region " + cmp.Or(aws.ToString(t.HomeRegion), f.aws.Region)
		commands := ""
		if !records {
			commands += fmt.Sprintf("aws cloudtrail put-event-selectors%s --trail-name %s %s\n", where, aws.ToString(t.TrailARN), widened(selected))
		}
		if !logging {
			commands += fmt.Sprintf("aws cloudtrail start-logging%s --name %s\n", where, aws.ToString(t.TrailARN))
		}
		if mend == "" || logging {
			mend = commands
		}
	}
	if unclears != "" {
		return "", warning("trail " + unclears + " cannot be examined: check that it records management events of this account, reads " +
			"included, or nobody is told when a person reads a signing key")
	}
	return cmp.Or(mend, f.newTrail()), errors.New("no trail records management events with reads, so nobody is told when a person " +
		"reads a signing key")
}

func (f *flight) newTrail() string {
	bucket := fmt.Sprintf("cloudtrail-%s-%s", f.account, f.aws.Region)
	policy := fmt.Sprintf(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"cloudtrail.amazonaws.com"},`+
		`"Action":"s3:GetBucketAcl","Resource":"arn:%s:s3:::%s"},{"Effect":"Allow","Principal":{"Service":"cloudtrail.amazonaws.com"},`+
		`"Action":"s3:PutObject","Resource":"arn:%[1]s:s3:::%[2]s/AWSLogs/%s/*","Condition":{"StringEquals":{"s3:x-amz-acl":"bucket-owner-full-control"}}}]}`,
		f.partition, bucket, f.account)
	return fmt.Sprintf("aws s3 mb s3://%s%s\naws s3api put-bucket-policy%[2]s --bucket %[1]s --policy '%[3]s'\n"+
		"aws cloudtrail create-trail%[2]s --name management --s3-bucket-name %[1]s --is-multi-region-trail\naws cloudtrail "+
		"start-logging%[2]s --name management\n",
		bucket, f.here(), policy)
}

// records reports whether a trail has the events that rules of the template wait for.
func (f *flight) records(s *cloudtrail.GetEventSelectorsOutput) bool {
	sources := []string{"secretsmanager.amazonaws.com"}
	if strings.Contains(f.text, "aws.kms") {
		sources = append(sources, "kms.amazonaws.com")
	}
	all := func(of func(source string) bool) bool {
		return !slices.ContainsFunc(sources, func(source string) bool { return !of(source) })
	}
	for _, e := range s.EventSelectors {
		if aws.ToBool(e.IncludeManagementEvents) && e.ReadWriteType != types.ReadWriteTypeWriteOnly &&
			all(func(source string) bool { return !slices.Contains(e.ExcludeManagementEventSources, source) }) {
			return true
		}
	}
	return slices.ContainsFunc(s.AdvancedEventSelectors, func(e types.AdvancedEventSelector) bool {
		return all(func(source string) bool {
			management := false
			for _, field := range e.FieldSelectors {
				value := map[string]string{"eventCategory": "Management", "readOnly": "true", "eventSource": source}[aws.ToString(field.Field)]
				if value == "" || len(field.Equals) > 0 && !slices.Contains(field.Equals, value) || slices.Contains(field.NotEquals, value) ||
					len(field.StartsWith)+len(field.EndsWith)+len(field.NotStartsWith)+len(field.NotEndsWith) > 0 {
					return false
				}
				management = management || aws.ToString(field.Field) == "eventCategory"
			}
			return management
		})
	})
}

// widened is the flag that has a trail record all management events beside what it records.
func widened(s *cloudtrail.GetEventSelectorsOutput) string {
	if len(s.AdvancedEventSelectors) > 0 {
		kept := slices.DeleteFunc(slices.Clone(s.AdvancedEventSelectors), func(e types.AdvancedEventSelector) bool {
			return slices.ContainsFunc(e.FieldSelectors, func(f types.AdvancedFieldSelector) bool { return slices.Contains(f.Equals, "Management") })
		})
		return "--advanced-event-selectors '" + written(append(kept, types.AdvancedEventSelector{Name: aws.String("management"),
			FieldSelectors: []types.AdvancedFieldSelector{{Field: aws.String("eventCategory"), Equals: []string{"Management"}}}})) + "'"
	}
	kept := []types.EventSelector{{}}
	if len(s.EventSelectors) > 0 {
		kept = slices.Clone(s.EventSelectors)
	}
	kept[0].IncludeManagementEvents, kept[0].ReadWriteType, kept[0].ExcludeManagementEventSources = aws.Bool(true), types.ReadWriteTypeAll, nil
	return "--event-selectors '" + written(kept) + "'"
}

// written is JSON for a single-quoted word of a shell, without the nulls that the AWS CLI refuses.
func written(v any) string {
	text, _ := json.Marshal(v) // it was read from JSON
	var plain any
	_ = json.Unmarshal(text, &plain)
	text, _ = json.Marshal(withoutNulls(plain))
	return strings.ReplaceAll(string(text), "'", `\u0027`)
}

func withoutNulls(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = withoutNulls(v[i])
		}
	case map[string]any:
		maps.DeleteFunc(v, func(_ string, each any) bool { return each == nil })
		for name := range v {
			v[name] = withoutNulls(v[name])
		}
	}
	return v
}
