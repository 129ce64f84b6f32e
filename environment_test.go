package remit_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A source finds the environment variables that functions read, by following
// the *boot.Env from wire through every call that is handed it.
type source struct {
	t        *testing.T
	packages map[string]map[string]declared // by directory and function's name
}

type declared struct {
	fn      *ast.FuncDecl
	imports map[string]string // directories of our packages, by the name they are used under
}

// variables returns the names that the main in dir reads, and whether it cannot
// start without each.
func (s *source) variables(dir string) map[string]bool {
	read := make(map[string]bool)
	s.follow(dir, "wire", read)
	return read
}

// follow adds what the function of that name in dir reads from its *boot.Env,
// itself or through others.
func (s *source) follow(dir, name string, read map[string]bool) {
	d, ok := s.functions(dir)[name]
	if !ok {
		s.t.Errorf("%s has no func %s", dir, name)
		return
	}
	env := envParameter(d.fn)
	if env == "" {
		return
	}
	ast.Inspect(d.fn.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		callee := ast.Unparen(call.Fun)
		if generic, ok := callee.(*ast.IndexExpr); ok {
			callee = generic.X
		}
		selected, isSelected := callee.(*ast.SelectorExpr)
		switch {
		case isSelected && isIdent(selected.X, env):
			s.add(read, call.Args, selected.Sel.Name != "Optional")
		case len(call.Args) > 1 && isIdent(call.Args[0], env) && s.add(read, call.Args[1:], true):
			// boot.Parse and its like: the variable is named here.
		case !handed(call.Args, env):
		case isSelected:
			if pkg, ok := selected.X.(*ast.Ident); ok && d.imports[pkg.Name] != "" {
				s.follow(d.imports[pkg.Name], selected.Sel.Name, read)
			}
		default:
			if local, ok := callee.(*ast.Ident); ok {
				s.follow(dir, local.Name, read)
			}
		}
		return true
	})
}

// add adds the first argument if it is a string, and says whether it was.
func (s *source) add(read map[string]bool, args []ast.Expr, required bool) bool {
	if len(args) == 0 {
		return false
	}
	literal, ok := args[0].(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return false
	}
	name, err := strconv.Unquote(literal.Value)
	if err != nil {
		s.t.Error(err)
	}
	read[name] = read[name] || required
	return true
}

// functions returns the functions declared in a directory, without methods.
func (s *source) functions(dir string) map[string]declared {
	if known, ok := s.packages[dir]; ok {
		return known
	}
	all := make(map[string]declared)
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			s.t.Fatal(err)
		}
		imports := make(map[string]string)
		for _, imp := range file.Imports {
			path, _ := strconv.Unquote(imp.Path.Value)
			if ours, ok := strings.CutPrefix(path, "remit/"); ok {
				name := filepath.Base(ours)
				if imp.Name != nil {
					name = imp.Name.Name
				}
				imports[name] = ours
			}
		}
		for _, d := range file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				all[fn.Name.Name] = declared{fn, imports}
			}
		}
	}
	s.packages[dir] = all
	return all
}

// envParameter returns the name of the parameter of type *boot.Env, or "".
func envParameter(fn *ast.FuncDecl) string {
	for _, p := range fn.Type.Params.List {
		pointer, ok := p.Type.(*ast.StarExpr)
		if !ok || len(p.Names) == 0 {
			continue
		}
		if named, ok := pointer.X.(*ast.SelectorExpr); ok && named.Sel.Name == "Env" || isIdent(pointer.X, "Env") {
			return p.Names[0].Name
		}
	}
	return ""
}

func handed(args []ast.Expr, env string) bool {
	for _, arg := range args {
		if isIdent(arg, env) {
			return true
		}
	}
	return false
}

func isIdent(e ast.Expr, name string) bool {
	ident, ok := e.(*ast.Ident)
	return ok && ident.Name == name
}
