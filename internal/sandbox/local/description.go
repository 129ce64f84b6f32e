package local

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/remit-payouts/remit/internal/api/httpapi"
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
