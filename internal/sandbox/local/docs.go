package local

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
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

// description returns openapi.yaml as JSON, with url as its server. Its order
// is kept, for people who read it in the explorer, and so are its numbers:
// 2^256-1 is not a float.
func description(url string) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(httpapi.Description, &document); err != nil {
		return nil, fmt.Errorf("reading openapi.yaml: %w", err)
	}
	var servers yaml.Node
	if err := servers.Encode([]map[string]string{{"url": url, "description": "this server"}}); err != nil {
		return nil, fmt.Errorf("writing the servers: %w", err)
	}
	root := document.Content[0]
	if i := slices.IndexFunc(root.Content, func(n *yaml.Node) bool { return n.Value == "servers" }); i >= 0 {
		root.Content[i+1] = &servers
	}
	text, err := toJSON(root)
	if err != nil {
		return nil, fmt.Errorf("writing openapi.json: %w", err)
	}
	return []byte(text), nil
}

// toJSON returns a YAML node without aliases as JSON.
func toJSON(n *yaml.Node) (string, error) {
	if n.Kind == yaml.ScalarNode {
		if !slices.Contains([]string{"!!int", "!!float", "!!bool", "!!null"}, n.Tag) {
			text, err := json.Marshal(n.Value)
			return string(text), err
		}
		if !json.Valid([]byte(n.Value)) {
			return "", fmt.Errorf("line %d: %s is not written as JSON has it", n.Line, n.Value)
		}
		return n.Value, nil
	}
	parts := make([]string, len(n.Content))
	for i, part := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 { // a key, such as 200, is text
			part.Tag = "!!str"
		}
		var err error
		if parts[i], err = toJSON(part); err != nil {
			return "", err
		}
	}
	switch n.Kind {
	case yaml.SequenceNode:
		return "[" + strings.Join(parts, ",") + "]", nil
	case yaml.MappingNode:
		var fields []string
		for field := range slices.Chunk(parts, 2) {
			fields = append(fields, strings.Join(field, ":"))
		}
		return "{" + strings.Join(fields, ",") + "}", nil
	}
	return "", fmt.Errorf("line %d is neither a mapping, a list nor a scalar", n.Line)
}

//go:embed explorer.html
var explorerHTML string

// explorer returns the page of GET /docs: Swagger UI over /openapi.json. Its
// styles and scripts are inside, so that it works off line.
func explorer(recipients []devnet.Recipient) ([]byte, error) {
	style, err := asset("swagger-ui.css.gz")
	if err != nil {
		return nil, err
	}
	script, err := asset("swagger-ui-bundle.js.gz")
	if err != nil {
		return nil, err
	}
	page, err := template.New("explorer").Parse(explorerHTML)
	if err != nil {
		return nil, err
	}
	var html bytes.Buffer
	err = page.Execute(&html, map[string]any{
		"Style":      template.CSS(style),
		"Script":     template.JS(script),
		"Recipients": recipients,
		"Behaviours": map[string]string{
			"revert": "is accepted and mined, and then fails: the token reverts",
			"stuck":  "stays pending for ever and holds nothing else up",
			"reorg":  "is mined, re-organised away once, mined again, and then confirmed",
		},
	})
	return html.Bytes(), err
}

func asset(name string) ([]byte, error) {
	f, err := static.FS.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	packed, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(packed)
}
