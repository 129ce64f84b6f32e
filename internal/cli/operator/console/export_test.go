package console

import "github.com/aws/aws-sdk-go-v2/aws"

// Reading returns cfg as a console uses it, with a budget of so many calls a minute.
func Reading(cfg aws.Config, most int) aws.Config { return (&budget{most: most}).reading(cfg) }
