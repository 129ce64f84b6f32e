// Package cli groups the packages of the command line: a stack in one process (local), commands of
// operators (operator, preflight, plan) and of merchants (merchant).
//
// They do not import each other, except that local and preflight use operator/deployed.
package cli
