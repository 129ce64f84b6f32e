//go:build sandbox

package main

type onAWS struct{}
