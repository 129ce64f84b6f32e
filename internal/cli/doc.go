// Package cli groups the packages of the command line: a stack in one process (local), commands of
// operators (operator, plan) and of merchants (merchant).
//
// They do not import each other, except that local uses operator/deployed.
package cli
