package lab

import "syscall"

// maxrssUnit is the unit of ru_maxrss in bytes (getrusage(2)).
const maxrssUnit = 1024

// mortal makes a child end when its parent does, however that ends.
func mortal() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
