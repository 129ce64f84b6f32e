// Package cli groups the packages of the command line: commands of operators (operator, plan) and
// of merchants (merchant). They do not import each other.
package cli
