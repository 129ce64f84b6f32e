package merchant

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/remit-payouts/remit/internal/evm/token"
	remit "github.com/remit-payouts/remit/sdk/go"
)

// A payRow is one row of a file of payments, with the outcome of its payment.
type payRow struct {
	line      int // where the row begins in the file, from 1
	to        token.Address
	amount    token.Amount
	reference string
	name      string // of the recipient, if the file has a column of it; for the results alone
	key       string // the Idempotency-Key of its own payment, or of the batch that pays it
	twin      int    // the line of the first row with the same content; 0 for none
	asset     remit.ListedAsset

	status  string // "" until the API knows it; see the statuses in pay.go
	hash    string
	onChain string
	block   uint64
	made    time.Time // when its payment was made
	before  string    // the status in which the payment was found before this run paid anything; "" if there was none
	doubt   bool      // something is begun under its key
	stage   string    // how far a pending payment has come
	problem string    // why it was refused, failed, or is not known
}

// order returns the request of the row.
func (r *payRow) order() remit.Order {
	return remit.Order{Asset: r.asset.Asset, To: r.to.String(), Amount: remit.Amount(r.amount.String()), Reference: r.reference}
}

// The columns that a file may have; names are compared without regard to case.
var (
	addressColumns = []string{"address", "wallet_address", "to"}
	payColumns     = append([]string{"amount", "amount_units", "reference", "asset"}, addressColumns...)
)

// referenceLimit is the longest reference that the API takes, in code points.
const referenceLimit = 128

// readPayments reads a whole file of payments: of the asset that its column names, else of the one asked for or the
// default. bad lists each row that cannot be paid, by line and reason; then rows are not all. An error means that the
// file as a whole cannot be paid.
//
// The Idempotency-Key of a row follows from the run's name, the row's recipient, amount and reference, and from how
// many rows before have the same content. It follows from nothing else, so a row keeps its key when the file is
// renamed, sorted, edited elsewhere, or read on another machine. A reference counts without blanks around it and in
// Unicode's form NFC, since programs that save a file again change both.
func readPayments(file []byte, run, asked string, all []remit.ListedAsset) (rows []*payRow, bad []string, err error) {
	f, err := payFileOf(file, all)
	if err != nil {
		return nil, nil, err
	}
	chosen, err := assetOf(all, asked)
	if err != nil {
		return nil, nil, err
	}
	seen := map[string][]int{} // the lines of the rows with the same content
	for {
		fields, err := f.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if broken, ok := errors.AsType[*csv.ParseError](err); ok {
			bad = append(bad, fmt.Sprintf("line %d: %v", broken.StartLine, broken.Err))
			continue
		} else if err != nil {
			return nil, nil, err
		}
		line, _ := f.FieldPos(0)
		row, err := f.row(line, fields, chosen)
		if err != nil {
			bad = append(bad, fmt.Sprintf("line %d: %v", line, err))
			continue
		}
		content := strings.Join([]string{run, row.to.String(), row.amount.String(), row.reference}, "\x00")
		if before := seen[content]; len(before) > 0 {
			row.twin = before[0]
		}
		row.key = payKey(content, len(seen[content]))
		seen[content] = append(seen[content], line)
		rows = append(rows, row)
	}
	if f.commas {
		bad = append(bad, f.thousands...)
	}
	if len(rows)+len(bad) == 0 {
		return nil, nil, errors.New("the file has a header and no row; add rows")
	}
	if len(bad) == 0 {
		err = ofOneAsset(rows, map[bool]string{true: chosen.Asset}[asked != ""])
	}
	return rows, bad, err
}

// A payFile is a file of payments behind its header.
type payFile struct {
	*csv.Reader
	names           []string
	column          map[string]int
	address, amount string // the names of two columns
	assets          []remit.ListedAsset

	// "1.000" is refused in a file with semicolons or commas in amounts, where a dot may separate thousands.
	commas    bool
	thousands []string
}

func payFileOf(file []byte, assets []remit.ListedAsset) (*payFile, error) {
	file = bytes.TrimPrefix(file, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(file) {
		return nil, errors.New("the file is not UTF-8; save it as CSV UTF-8")
	}
	header, _, _ := bytes.Cut(file, []byte("\n"))
	f := &payFile{Reader: csv.NewReader(bytes.NewReader(file)), assets: assets}
	f.FieldsPerRecord = -1
	if f.commas = bytes.Count(header, []byte(";")) > bytes.Count(header, []byte(",")); f.commas {
		f.Comma = ';'
	}
	var err error
	if f.names, err = f.Read(); errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty; begin it with the names of its columns: address,amount")
	} else if err != nil {
		return nil, fmt.Errorf("the header cannot be read (%w); name the columns in the first line: address,amount", err)
	}
	f.column, f.address, f.amount, err = columnsOf(f.names)
	return f, err
}

// row reads a row, which is of the chosen asset unless the file has a column of assets.
func (f *payFile) row(line int, fields []string, chosen remit.ListedAsset) (*payRow, error) {
	if len(fields) != len(f.names) {
		return nil, fmt.Errorf("has %s, and the header %d", counted(len(fields), "field"), len(f.names))
	}
	text := strings.TrimSpace(fields[f.column[f.amount]])
	f.commas = f.commas || strings.Contains(text, ",")
	if whole, part, dot := strings.Cut(text, "."); dot && len(part) == 3 && !strings.Contains(part, ".") {
		f.thousands = append(f.thousands, fmt.Sprintf("line %d: %s %q may be %s%s or %s.%s; write one of these", line, f.amount, text,
			whole, part, whole, strings.TrimRight(part, "0")+"0")) // which is not of three digits
	}
	var err error
	if i, there := f.column["asset"]; there {
		if chosen, err = assetOf(f.assets, strings.TrimSpace(fields[i])); err != nil {
			return nil, err
		}
	}
	row, err := payRowOf(fields, f.column, f.address, f.amount, chosen.Decimals)
	if err == nil {
		row.line, row.asset = line, chosen
	}
	return row, err
}

// ofOneAsset returns an error with the sums unless all rows are of one asset, and of the one asked for if it is named.
func ofOneAsset(rows []*payRow, asked string) error {
	var sums []string
	for len(rows) > 0 {
		asset, sum, n := rows[0].asset, token.Amount{}, len(rows)
		rows = slices.DeleteFunc(slices.Clone(rows), func(r *payRow) bool {
			if r.asset.Asset == asset.Asset {
				sum, _ = sum.Add(r.amount)
			}
			return r.asset.Asset == asset.Asset
		})
		if n -= len(rows); len(sums)+len(rows) == 0 && (asked == "" || asked == asset.Asset) {
			return nil
		}
		sums = append(sums, fmt.Sprintf("%s, %s %s (%s)", counted(n, "row"), sum.Tokens(asset.Decimals), asset.Token, asset.Asset))
	}
	return fmt.Errorf("nothing was paid: a run pays one asset, and the rows are of these; give each a file, and a name with --run:\n  %s",
		strings.Join(sums, "\n  "))
}

// columnsOf returns the places of a header's columns by their names in lower case, and the names of two of them.
func columnsOf(names []string) (column map[string]int, address, amount string, err error) {
	column = map[string]int{}
	for i, name := range names {
		name = strings.ToLower(strings.TrimSpace(name))
		if _, twice := column[name]; twice && slices.Contains(payColumns, name) {
			return nil, "", "", fmt.Errorf("the header has the column %s twice; remove one", name)
		}
		column[name] = i
	}
	if address, err = oneOf(column, addressColumns...); err == nil {
		amount, err = oneOf(column, "amount", "amount_units")
	}
	return column, address, amount, err
}

// payKey returns the Idempotency-Key of the payment with that number among those with the same content.
func payKey(content string, number int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", content, number))
	return "pay-" + hex.EncodeToString(sum[:16])
}

// oneOf returns the only one of the names that the header has.
func oneOf(column map[string]int, names ...string) (string, error) {
	have := slices.DeleteFunc(slices.Clone(names), func(name string) bool { _, there := column[name]; return !there })
	if len(have) != 1 {
		all := slices.SortedFunc(maps.Keys(column), func(a, b string) int { return column[a] - column[b] })
		return "", fmt.Errorf("name one column %s; found: %s", strings.Join(names, " or "), strings.Join(all, ", "))
	}
	return have[0], nil
}

func payRowOf(fields []string, column map[string]int, address, amount string, decimals int) (*payRow, error) {
	row := &payRow{}
	if i, there := column["reference"]; there {
		row.reference = norm.NFC.String(strings.TrimSpace(fields[i]))
	}
	if i, there := column["name"]; there {
		row.name = fields[i]
	}
	if utf8.RuneCountInString(row.reference) > referenceLimit {
		return nil, fmt.Errorf("the reference is too long; shorten it to %d characters", referenceLimit)
	}
	var err error
	if row.to, err = token.ParseAddress(strings.TrimSpace(fields[column[address]])); err != nil {
		step := "; copy it again"
		if !errors.Is(err, token.ErrChecksum) {
			step = "; an address is 0x and 40 hex digits"
		}
		return nil, fmt.Errorf("%s %q: %w%s", address, fields[column[address]], err, step)
	}
	text := strings.TrimSpace(fields[column[amount]])
	if amount == "amount" {
		row.amount, err = token.ParseTokens(text, decimals)
	} else {
		row.amount, err = token.ParseAmount(text)
	}
	if err == nil && row.amount.IsZero() {
		err = errors.New("is zero; remove the row, or correct its amount")
	}
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", amount, text, err)
	}
	return row, nil
}
