// Package cli groups the rooms of the command line: a stack in one process (local), commands of
// operators (operator, preflight, plan) and of merchants (merchant), and the page that
// local and the console show (page).
//
// The rooms know nothing of each other.
package cli
