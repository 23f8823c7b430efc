package borough

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// packageOf reads the documentation of a folder.
func packageOf(t *testing.T, folder string) *doc.Package {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	read, err := doc.NewFromFiles(set, files, folder)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// explainsItself: the package errors or fmt defines the method.
func explainsItself(method string) bool { return method == "Error" || method == "String" }

func TestEveryPublicThingHasADocComment(t *testing.T) {
	seen := 0
	for _, folder := range []string{".", "grpcresolver", "task"} {
		read := packageOf(t, folder)
		check := func(name, comment string) {
			if seen++; comment == "" && ast.IsExported(name) {
				t.Errorf("%s: %s has no doc comment", folder, name)
			}
		}
		check("Package", read.Doc)
		for _, function := range read.Funcs {
			check(function.Name, function.Doc)
		}
		for _, kind := range read.Types {
			comments := kind.Doc
			for _, spec := range kind.Decl.Specs {
				// A type of a group has a comment of its own.
				if of, is := spec.(*ast.TypeSpec); is && of.Name.Name == kind.Name && of.Doc != nil {
					comments = of.Doc.Text()
				}
			}
			check(kind.Name, comments)
			for _, function := range kind.Funcs {
				check(function.Name, function.Doc)
			}
			for _, method := range kind.Methods {
				if ast.IsExported(kind.Name) && !explainsItself(method.Name) {
					check(method.Name, method.Doc)
				}
			}
		}
	}
	if seen < 150 {
		t.Errorf("only %d things were seen", seen)
	}
}
