package merchant

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"remit/internal/token"
)

// resultColumns is the header of the file of results.
var resultColumns = []string{"row", "status", "tx_hash", "onchain_tx_hash", "block_number", "error", "address", "amount_units", "idempotency_key"}

// results is the name of the file of results.
func (p *payout) results() string { return p.File + ".results.csv" }

// writeSometimes writes the results, at most once a second.
func (p *payout) writeSometimes() error {
	p.mu.Lock()
	early := time.Since(p.written) < time.Second
	p.mu.Unlock()
	if early {
		return nil
	}
	return p.write()
}

// write puts the results in the place of the earlier ones, in one step: a reader, and
// a run that is killed, finds the old file or the new one.
func (p *payout) write() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.Write(resultColumns)
	for _, r := range p.rows {
		block := ""
		if r.block != 0 {
			block = strconv.FormatUint(r.block, 10)
		}
		_ = w.Write([]string{strconv.Itoa(r.line), r.status, r.hash, r.onChain, block, r.problem, r.to.String(), r.amount.String(), r.key})
	}
	w.Flush()
	file, err := os.CreateTemp(filepath.Dir(p.File), ".results-*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", p.results(), err)
	}
	_, err = file.Write(b.Bytes())
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), p.results())
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return fmt.Errorf("writing %s: %w", p.results(), err)
	}
	p.written = time.Now()
	return nil
}

// gone names the rows that an earlier run of the file paid, by its results, and that
// the file does not have any more, and those of which it has the recipient and the amount
// under another key.
func (p *payout) gone() (gone, again []string) {
	file, err := os.ReadFile(p.results())
	if err != nil {
		return nil, nil
	}
	records, err := csv.NewReader(bytes.NewReader(file)).ReadAll()
	if err != nil || len(records) == 0 || !slices.Equal(records[0], resultColumns) {
		return nil, nil
	}
	here := map[[3]string]int{} // rows of a key, which those of a batch share
	for _, r := range p.rows {
		here[[3]string{r.key, r.to.String(), r.amount.String()}]++
		here[[3]string{"", r.to.String(), r.amount.String()}]++
	}
	for _, was := range records[1:] {
		id, like := [3]string{was[8], was[6], was[7]}, [3]string{"", was[6], was[7]}
		here[id]--
		here[like]--
		amount, err := token.ParseAmount(was[7])
		if here[id] >= 0 || err != nil || was[2] == "" {
			continue
		}
		row := fmt.Sprintf("%s %s to %s (line %s)", amount.Tokens(p.decimals), p.symbol, was[6], was[0])
		if here[like] >= 0 {
			again = append(again, row)
		} else {
			gone = append(gone, row)
		}
	}
	return gone, again
}
