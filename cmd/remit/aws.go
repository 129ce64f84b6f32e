//go:build !sandbox

package main

func misread(err error) error { return err }
