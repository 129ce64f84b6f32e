//go:build !race

package settlementtest_test

const raceDetector = false
