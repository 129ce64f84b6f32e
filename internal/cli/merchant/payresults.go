package merchant

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	remit "github.com/remit-payouts/remit/sdk/go"
)

// lifetime is how long a request may take effect: the client's Remit-Not-After is 30 s ahead, and has 40 s of grace.
const lifetime = 71 * time.Second

var resultColumns = []string{"row", "status", "tx_hash", "onchain_tx_hash", "block_number", "error", "address",
	"amount_units", "idempotency_key", "reference", "name", "amount", "created_at", "asset"}

func (p *payout) results() string {
	if p.Name == "" {
		return p.File + ".results.csv"
	}
	return p.File + "." + url.PathEscape(p.Name) + ".results.csv"
}

// write replaces results older than age atomically: a reader, also after a kill, finds the old file or the new one.
func (p *payout) write(age time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.written) < age {
		return nil
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.Write(resultColumns)
	for _, r := range p.rows {
		created, problem := "", r.problem
		if r.status == "pending" { // why it waits is no error
			problem = ""
		}
		if !r.made.IsZero() {
			created = r.made.UTC().Format(time.RFC3339)
		}
		_ = w.Write([]string{strconv.Itoa(r.line), r.status, r.hash, r.onChain, r.block, problem, r.to.String(),
			r.amount.String(), r.key, noFormula(r.reference), noFormula(r.name), r.amount.Tokens(p.coin.Decimals), created, p.coin.Asset})
	}
	_ = w.WriteAll(p.lacking) // hashes of paid rows are never dropped
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

// noFormula keeps a spreadsheet from computing a text.
func noFormula(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}

// earlier returns the results of an earlier run of the file, without their header.
func (p *payout) earlier() [][]string { return resultsIn(p.results()) }

func resultsIn(name string) [][]string {
	file, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	records, err := csv.NewReader(bytes.NewReader(file)).ReadAll()
	if err != nil || len(records) == 0 || !slices.Equal(records[0], resultColumns) {
		return nil
	}
	return records[1:]
}

// unfinished reports whether an earlier run did not see the end of every row, and until when its requests may pay.
func (p *payout) unfinished() (goesOn bool, open time.Time) {
	info, err := os.Stat(p.results())
	for _, was := range p.earlier() {
		if was[8] == p.batchKey(0) && was[2] != "" {
			p.begins = was[2] + " " + was[3]
		}
		goesOn = goesOn || was[0] != "none" && slices.Contains([]string{"", unknown, notSent, "pending"}, was[1])
		if err == nil && (was[1] == "" || was[1] == unknown) {
			open = info.ModTime().Add(lifetime)
		}
	}
	return goesOn, open
}

// recall takes final outcomes of single rows from results with the run's first payment; the rest is requested again.
func (p *payout) recall() {
	ends := map[string][]string{}
	for _, was := range p.earlier() {
		if was[1] == "confirmed" || was[1] == "failed" {
			ends[was[8]] = was
		}
	}
	for _, r := range p.rows {
		if was, ended := ends[r.key]; ended && r.hash == "" && strings.Contains(p.begins, p.first) {
			r.status, r.hash, r.onChain, r.block, r.problem = was[1], was[2], was[3], was[4], was[5]
			r.made, _ = time.Parse(time.RFC3339, was[12])
		}
	}
}

// paidElse returns the results of rows that this run has paid, and that the file now lacks or has with another key.
func (p *payout) paidElse() (paid [][]string) {
	here, known := map[[3]string]int{}, map[string]bool{} // rows of a key, which the rows of a batch share; hashes
	for _, r := range p.rows {
		here[[3]string{r.key, r.to.String(), r.amount.String()}]++
	}
	for _, was := range p.earlier() {
		known[was[2]] = true
		id := [3]string{was[8], was[6], was[7]}
		why, _, _ := strings.Cut(was[5], " ")
		if here[id]--; here[id] < 0 && was[2] != "" && (was[1] != "failed" || !slices.Contains(paidNobody, why)) {
			paid = append(paid, was)
		}
	}
	return append(paid, slices.DeleteFunc(p.lacking, func(stored []string) bool { return known[stored[2]] })...)
}

// lacks notes a payment of the run, or an entry of a batch, that no row of the file matches, unless it paid nobody.
func (p *payout) lacks(made remit.Payment, key string, e remit.BatchEntry) {
	if made.Failure != nil && slices.Contains(paidNobody, string(made.Failure.Code)) || over(string(made.Status)) {
		return
	}
	p.lacking = append(p.lacking, []string{"none", string(made.Status), made.TxHash, made.OnchainTxHash, "", "", e.To,
		e.Amount.String(), key, noFormula(e.Reference), "", tokens(e.Amount, p.coin.Decimals),
		made.CreatedAt.UTC().Format(time.RFC3339), p.coin.Asset})
}

// match reports whether made is a single payment of this run, and records it for its row or as one the file lacks.
func (p *payout) match(made remit.Payment) bool {
	key := made.IdempotencyKey
	if !strings.EqualFold(made.Asset, p.coin.Asset) {
		return false
	}
	i := slices.IndexFunc(p.rows, func(r *payRow) bool { return r.key == key })
	if i >= 0 && p.rows[i].status == "" {
		p.noted(p.rows[i], made)
	}
	ours := i >= 0 || slices.ContainsFunc(p.lacking, func(was []string) bool { return was[8] == key })
	words := strings.Join([]string{p.Name, made.To, made.Amount.String(), made.Reference}, "\x00")
	for n := range 100 { // rows with the same content
		if !ours && key == payKey(words, n) {
			ours = true
			p.lacks(made, key, remit.BatchEntry{To: made.To, Amount: made.Amount, Reference: made.Reference})
		}
	}
	return ours
}
