package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// A mutant is one small mistake in a Go file.
type mutant struct {
	id   int    // counted from 1 over all files
	at   int    // offset in its file
	name string // file, function, kind, and the source that is changed
	pkg  string
}

// chooser is added to a mutated package. All its mutants are compiled into it at once, so that each costs no more than
// a run of the tests. A mutant is made if MUTANT is its id; the file REACHED gets the ids of all that a test reaches.
const chooser = `package %s

import (
	"os"
	"strconv"
)

var (
	mutantMade, _  = strconv.Atoi(os.Getenv("MUTANT"))
	mutantFile, _  = os.OpenFile(os.Getenv("REACHED"), os.O_APPEND|os.O_WRONLY, 0)
	mutantsReached [%d]bool
)

func mutant(n int) bool {
	if !mutantsReached[n] {
		mutantReached(n)
	}
	return n == mutantMade
}

func mutantReached(n int) {
	mutantsReached[n] = true
	_, _ = mutantFile.WriteString(strconv.Itoa(n) + "\n")
}
`

// An edit puts text into a source file.
type edit struct {
	at, order int
	text      string
}

// A mutator writes all mutants of a file into its source:
//
//	a < b   turned          (a < b) != mutant(7)
//	a < b   boundary moved  (mutant(8) && (a <= b) || !mutant(8) && (a < b))
//	ok      negated         (ok) != mutant(9)
//	f(x)    left out        if !mutant(10) { f(x) }
type mutator struct {
	file, source string
	base         int // of the file's positions
	pkg, fn      string
	first        int // id of the first mutant
	mutants      []mutant
	edits        []edit
}

// mutate returns a file of a package with all its mutants in it, and a list of
// them in the order of the source. Their ids are counted from first.
func mutate(pkg, file, source string, first int) (string, []mutant, error) {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, source, parser.SkipObjectResolution)
	if err != nil {
		return "", nil, err
	}
	m := &mutator{file: file, source: source, base: int(parsed.FileStart), pkg: pkg, first: first}
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			m.fn = f.Name.Name
			ast.Inspect(f.Body, m.visit)
		}
	}
	// Where one change ends and another begins, the end comes first; of two
	// that begin at one place the outer comes first, of two ends the inner.
	slices.SortFunc(m.edits, func(a, b edit) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order)) })
	var out strings.Builder
	at := 0
	for _, e := range m.edits {
		out.WriteString(source[at:e.at] + e.text)
		at = e.at
	}
	out.WriteString(source[at:])
	slices.SortStableFunc(m.mutants, func(a, b mutant) int { return cmp.Compare(a.at, b.at) })
	return out.String(), m.mutants, nil
}

// visit adds the mutants of one node; ast.Inspect comes to outer nodes first.
func (m *mutator) visit(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.GenDecl:
		return n.Tok != token.CONST
	case *ast.BlockStmt:
		m.leaveOut(n.List)
	case *ast.CaseClause:
		m.leaveOut(n.Body)
	case *ast.CommClause:
		m.leaveOut(n.Body)
	case *ast.IfStmt:
		if m.logs(n) {
			return false
		}
		m.negate(n.Cond)
	case *ast.ForStmt:
		m.negate(n.Cond)
	case *ast.SwitchStmt:
		for _, clause := range n.Body.List {
			for _, e := range clause.(*ast.CaseClause).List {
				if n.Tag == nil {
					m.negate(e)
				}
			}
		}
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			m.negate(n.X)
		}
	case *ast.BinaryExpr:
		if n.Op == token.LAND || n.Op == token.LOR {
			m.negate(n.X)
			m.negate(n.Y)
		}
		m.compare(n)
	case *ast.Ident:
		if n.Name == "true" || n.Name == "false" {
			m.add("negated", n, "(", ") != "+m.made())
		}
	}
	return true
}

// moved is each comparison with its boundary on the other side.
var moved = map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}

// compare turns a comparison, and moves its boundary.
func (m *mutator) compare(e *ast.BinaryExpr) {
	boundary, ordered := moved[e.Op]
	if !ordered && e.Op != token.EQL && e.Op != token.NEQ {
		return
	}
	m.add("turned", e, "((", ") != "+m.made()+")")
	if ordered {
		m.add("boundary moved", e, "("+m.made()+" && ("+m.text(e.X)+" "+boundary+" "+m.text(e.Y)+") || !"+m.made()+" && (", "))")
	}
}

// negate negates a condition that is neither a comparison nor made of several: visit comes to those by itself.
func (m *mutator) negate(e ast.Expr) {
	switch e.(type) {
	case nil, *ast.BinaryExpr, *ast.UnaryExpr, *ast.ParenExpr:
		return
	}
	if text := m.text(e); text != "true" && text != "false" {
		m.add("negated", e, "((", ") != "+m.made()+")")
	}
}

// harmless are calls that no test can miss: log lines, progress, locks (the race detector
// is for those) and the end of a context's timer.
var harmless = regexp.MustCompile(`\.Log\.|^slog\.|\.Say$|(?i:lock)$|^cancel$|^panic$`)

// logs says whether a statement decides about log lines alone.
func (m *mutator) logs(s *ast.IfStmt) bool {
	for _, inner := range s.Body.List {
		e, ok := inner.(*ast.ExprStmt)
		if !ok || !strings.Contains(m.text(e), ".Log.") {
			return false
		}
	}
	return s.Init == nil && s.Else == nil
}

// leaveOut leaves out each statement that the rest compiles without.
func (m *mutator) leaveOut(list []ast.Stmt) {
	for _, statement := range list {
		var call *ast.CallExpr
		switch s := statement.(type) {
		case *ast.ExprStmt:
			call, _ = s.X.(*ast.CallExpr)
		case *ast.DeferStmt:
			call = s.Call
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		case *ast.IfStmt:
			if s.Else != nil || m.logs(s) {
				continue
			}
		case *ast.ForStmt:
			if s.Cond == nil {
				continue
			}
		case *ast.BranchStmt:
			if s.Tok == token.FALLTHROUGH {
				continue
			}
		case *ast.IncDecStmt, *ast.SendStmt, *ast.GoStmt, *ast.RangeStmt:
		default:
			continue
		}
		if call == nil || !harmless.MatchString(m.text(call.Fun)) {
			m.add("left out", statement, "if !"+m.made()+" { ", " }")
		}
	}
}

// text is the source of a node.
func (m *mutator) text(n ast.Node) string { return m.source[int(n.Pos())-m.base : int(n.End())-m.base] }

// made is true where the next mutant is made.
func (m *mutator) made() string { return fmt.Sprintf("mutant(%d)", m.first+len(m.mutants)) }

// add makes a mutant of a node by text before and after it.
func (m *mutator) add(kind string, n ast.Node, before, after string) {
	id := m.first + len(m.mutants)
	text, more, _ := strings.Cut(m.text(n), "\n")
	if more != "" {
		text += " …"
	}
	m.mutants = append(m.mutants, mutant{id: id, at: int(n.Pos()) - m.base, pkg: m.pkg,
		name: fmt.Sprintf("%s %s: %s: %s", m.file, m.fn, kind, text)})
	m.edits = append(m.edits, edit{int(n.Pos()) - m.base, id, before}, edit{int(n.End()) - m.base, -id, after})
}
