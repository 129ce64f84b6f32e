package local

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"html/template"
	"io"

	"github.com/swaggest/swgui/v5/static"

	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

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
