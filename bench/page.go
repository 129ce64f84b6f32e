package main

func (b *bench) page() error { return nil }
