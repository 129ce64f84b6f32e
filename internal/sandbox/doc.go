// Package sandbox groups the parts of a stack without AWS or a real chain: an EVM in the process
// with a test token (devnet), the database in memory (memory), and faults of nodes and stores
// (fault).
//
// No function on Lambda links them.
package sandbox
