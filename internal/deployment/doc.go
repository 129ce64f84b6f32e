// Package deployment groups the packages that define one stack: its settings (settings), the known
// chains (chains), and the rules that follow from both (stack). None knows merchants or payments.
package deployment
