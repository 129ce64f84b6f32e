// Package api groups the contract with merchants: strict JSON (strictjson), and
// the handlers, the table of routes, the table of problems and openapi.yaml (httpapi).
//
// An answer's status, code and words are decided here and nowhere below.
package api
