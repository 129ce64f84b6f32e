package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

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
		name := aws.ToString(t.TrailARN)
		status, err := client.GetTrailStatus(ctx, &cloudtrail.GetTrailStatusInput{Name: &name})
		var selected *cloudtrail.GetEventSelectorsOutput
		if err == nil {
			selected, err = client.GetEventSelectors(ctx, &cloudtrail.GetEventSelectorsInput{TrailName: &name})
		}
		at, _ := arn.Parse(name)
		switch {
		case err != nil:
			unclears = name
		case !records(selected):
		case aws.ToBool(status.IsLogging):
			return "", nil
		case at.AccountID == f.account: // another is the organization's, which others change
			mend = fmt.Sprintf("aws cloudtrail start-logging --region %s --name %s\n", cmp.Or(aws.ToString(t.HomeRegion), f.aws.Region), name)
		}
	}
	if unclears != "" {
		return "", warning("trail " + unclears + " cannot be examined: check that it records management events of this account, reads " +
			"included, or nobody is told when a person reads a signing key")
	}
	return cmp.Or(mend, f.newTrail()), errors.New("no trail records management events with reads, so nobody is told when a person " +
		"reads a signing key")
}

// newTrail returns the commands that make a trail. Where others record other events, it costs
// $2 for 100,000 management events (AWS CloudTrail pricing).
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
func records(s *cloudtrail.GetEventSelectorsOutput) bool {
	sources := []string{"secretsmanager.amazonaws.com", "kms.amazonaws.com"}
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
