package local

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"gopkg.in/yaml.v3"

	"remit/internal/httpapi"
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
	var b bytes.Buffer
	if err := writeNode(&b, root); err != nil {
		return nil, fmt.Errorf("writing openapi.json: %w", err)
	}
	return b.Bytes(), nil
}

// writeNode writes a YAML node without aliases as JSON.
func writeNode(b *bytes.Buffer, n *yaml.Node) error {
	switch {
	case n.Kind == yaml.MappingNode:
		return writeList(b, '{', '}', len(n.Content)/2, func(i int) error {
			if err := writeText(b, n.Content[2*i].Value); err != nil {
				return err
			}
			b.WriteByte(':')
			return writeNode(b, n.Content[2*i+1])
		})
	case n.Kind == yaml.SequenceNode:
		return writeList(b, '[', ']', len(n.Content), func(i int) error { return writeNode(b, n.Content[i]) })
	case n.Kind != yaml.ScalarNode:
		return fmt.Errorf("line %d is neither a mapping, a list nor a scalar", n.Line)
	case n.Tag == "!!int", n.Tag == "!!float", n.Tag == "!!bool", n.Tag == "!!null":
		if !json.Valid([]byte(n.Value)) {
			return fmt.Errorf("line %d: %s is not written as JSON has it", n.Line, n.Value)
		}
		b.WriteString(n.Value)
		return nil
	default:
		return writeText(b, n.Value)
	}
}

func writeList(b *bytes.Buffer, opening, closing byte, n int, item func(i int) error) error {
	b.WriteByte(opening)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := item(i); err != nil {
			return err
		}
	}
	b.WriteByte(closing)
	return nil
}

func writeText(b *bytes.Buffer, s string) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	b.Write(text)
	return nil
}
