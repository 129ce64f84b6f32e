package local

import (
	"bytes"
	"cmp"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/swaggest/swgui/v5/static"
	"gopkg.in/yaml.v3"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

// description returns openapi.yaml as JSON, with url as its server and the program's version. Its order is kept, for
// people who read it in the explorer, and so are its numbers: 2^256-1 is not a float.
func description(url, version string) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(httpapi.Description, &document); err != nil {
		return nil, fmt.Errorf("reading openapi.yaml: %w", err)
	}
	set := strings.NewReplacer(`"version":"1.0.0"`, fmt.Sprintf(`"version":%q`, cmp.Or(version, "(devel)")), "https://api.example.com", url,
		"Replaced by the server's own address in /openapi.json.", "this server")
	text := []byte(set.Replace(toJSON(document.Content[0])))
	if !json.Valid(text) {
		return nil, errors.New("openapi.yaml has a number that is not written as JSON has it, or an alias")
	}
	return text, nil
}

// toJSON returns a YAML node as JSON, if it is written as JSON has it.
func toJSON(n *yaml.Node) string {
	var parts []string
	switch {
	case n.Kind == yaml.SequenceNode:
		for _, part := range n.Content {
			parts = append(parts, toJSON(part))
		}
		return "[" + strings.Join(parts, ",") + "]"
	case n.Kind == yaml.MappingNode:
		for field := range slices.Chunk(n.Content, 2) {
			field[0].Tag = "!!str" // a key, such as 200, is text
			parts = append(parts, toJSON(field[0])+":"+toJSON(field[1]))
		}
		return "{" + strings.Join(parts, ",") + "}"
	case slices.Contains([]string{"!!int", "!!float", "!!bool", "!!null"}, n.Tag):
		return n.Value
	}
	text, _ := json.Marshal(n.Value) // a string
	return string(text)
}

//go:embed explorer.html
var explorerHTML string

// explorer returns the page of GET /docs: Swagger UI over /openapi.json. Its
// styles and scripts are inside, so that it works off line. key is filled in, if there is one.
func explorer(recipients []devnet.Recipient, key string) ([]byte, error) {
	style, err := asset("swagger-ui.css.gz")
	script, scriptErr := asset("swagger-ui-bundle.js.gz")
	page, pageErr := template.New("explorer").Parse(explorerHTML)
	if err := errors.Join(err, scriptErr, pageErr); err != nil {
		return nil, err
	}
	var html bytes.Buffer
	err = page.Execute(&html, map[string]any{
		"Style":      template.CSS(style),
		"Script":     template.JS(script),
		"Recipients": recipients,
		"Key":        key,
		"Behaviours": map[string]string{
			"revert": "is accepted and mined, and then fails: the token reverts",
			"stuck":  "stays pending for ever and holds nothing else up",
			"reorg":  "is mined, re-organised away once, mined again, and then confirmed",
		},
	})
	return html.Bytes(), err
}

func asset(name string) ([]byte, error) {
	packed, err := static.FS.ReadFile(name)
	if err != nil {
		return nil, err
	}
	text, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(text)
}
