// Package sandbox groups the parts of a stack without AWS or a real chain: the stack in one process
// and its page (local), an EVM with a test token (devnet), the database in memory (memory), a hook
// before each call of the store or of a node (interpose), and faults of both (fault).
//
// No function on Lambda links them.
package sandbox
