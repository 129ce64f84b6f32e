// Package deployment groups the packages that say what one stack is: its settings, the chains that
// Remit knows, and the rules that follow from both. They know neither merchants nor payments.
package deployment
