package lab

import "syscall"

// maxrssUnit is the unit of ru_maxrss in bytes (getrusage(2) of macOS).
const maxrssUnit = 1

// mortal does nothing: there is no such thing here. What a killed benchmark
// leaves running has to be ended by hand.
func mortal() *syscall.SysProcAttr { return nil }
