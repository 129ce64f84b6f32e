package merchant

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
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

	status    string // "" until the API knows it; see the statuses in pay.go
	hash      string
	onChain   string
	block     string    // its number
	made      time.Time // when its payment was made
	before    string    // the status in which the payment was found before this run paid anything; "" if there was none
	problem   string    // why it was refused, failed, waits, or is not known
	elsewhere string    // where another run or program has paid the same, or may; "" for nowhere known
}

func (r *payRow) order() remit.Order {
	return remit.Order{Asset: &r.asset.Asset, To: r.to.String(), Amount: remit.Amount(r.amount.String()), Reference: r.reference}
}

func (r *payRow) pays(to string, amount remit.Amount) bool {
	return r.to.String() == to && r.amount.String() == amount.String()
}

// The columns that a file may have; names are compared without regard to case.
var (
	addressColumns = []string{"address", "wallet_address", "to"}
	wrongNames     = map[string]string{"currency": "asset", "symbol": "asset", "token": "asset", "ref": "reference"}
	payColumns     = append([]string{"amount", "amount_units", "reference", "asset"}, addressColumns...)
)

// parse reads the rows of a whole file of payments: of the assets that its column names, else of the run's. bad lists
// each row that cannot be paid, by line and reason. An error means that the file as a whole cannot be read.
//
// The Idempotency-Key of a row follows only from the run's name, the row's recipient, amount and reference, and how
// many rows before have the same content: it survives renaming, sorting and other machines. A reference counts without
// blanks around it and in Unicode's form NFC, since programs that save a file again change both.
func (p *payout) parse(file []byte, all []remit.ListedAsset) (bad []string, err error) {
	f, err := payFileOf(file)
	if err != nil {
		return nil, err
	}
	ignored := slices.DeleteFunc(slices.Sorted(maps.Keys(f.column)), func(name string) bool {
		return name == "" || name == "name" || slices.Contains(payColumns, name)
	})
	if len(ignored) > 0 {
		fmt.Fprintf(p.out, "%s: ignored columns: %q\n", p.File, ignored)
	}
	seen, sum := map[string][]int{}, token.Amount{} // the lines of the rows with the same content
	for {
		fields, err := f.Read()
		if errors.Is(err, io.EOF) {
			break
		} else if (err == nil || errors.Is(err, csv.ErrFieldCount)) && strings.TrimSpace(strings.Join(fields, "")) == "" {
			continue
		}
		if broken, ok := errors.AsType[*csv.ParseError](err); ok {
			bad = append(bad, fmt.Sprintf("line %d: not %d fields, or a broken quote", broken.StartLine, f.FieldsPerRecord))
			continue
		} else if err != nil {
			return nil, err
		}
		line, _ := f.FieldPos(0)
		row := &payRow{line: line, asset: p.coin}
		if i, there := f.column["asset"]; there {
			p.named = true
			row.asset, err = assetOf(all, cmp.Or(strings.TrimSpace(fields[i]), "default"))
		}
		if err == nil {
			err = f.read(row, fields)
		}
		isToken := func(a remit.ListedAsset) bool { return a.Contract == row.to.String() }
		if err == nil && (row.to.IsZero() || row.to.IsPrecompile() || slices.ContainsFunc(all, isToken)) {
			err = fmt.Errorf("%s %s is the zero address, a precompile or a token; correct it", f.address, row.to)
		}
		if err == nil && len(p.rows) == 0 && p.Asset == "default" {
			p.coin = row.asset
		}
		if err == nil && row.asset != p.coin {
			err = fmt.Errorf("it is of %s (%s), and the run pays %s (%s); give each asset a file and a --run",
				row.asset.Token, row.asset.Asset, p.coin.Token, p.coin.Asset)
		}
		if err == nil {
			sum, err = sum.Add(row.amount)
		}
		if err != nil {
			bad = append(bad, fmt.Sprintf("line %d: %v", line, err))
			continue
		}
		content := strings.Join([]string{p.Name, row.to.String(), row.amount.String(), row.reference}, "\x00")
		if before := seen[content]; len(before) > 0 {
			row.twin = before[0]
		}
		row.key = payKey(content, len(seen[content]))
		seen[content] = append(seen[content], line)
		p.rows = append(p.rows, row)
	}
	if f.commas {
		bad = append(bad, f.thousands...)
	}
	if len(p.rows)+len(bad) == 0 {
		err = errors.New("the file has a header and no row; add rows")
	}
	return bad, err
}

// A payFile is a file of payments behind its header.
type payFile struct {
	*csv.Reader
	column          map[string]int // places by names in lower case
	address, amount string         // the names of two columns

	// "1.000" is refused in a file with semicolons, tabs, or commas in amounts, where a dot may separate thousands.
	commas    bool
	thousands []string
}

func payFileOf(file []byte) (*payFile, error) {
	file = bytes.TrimPrefix(file, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(file) {
		return nil, errors.New("the file is not UTF-8; save it as CSV UTF-8")
	}
	header, _, _ := strings.Cut(string(file), "\n")
	f := &payFile{Reader: csv.NewReader(bytes.NewReader(file)), column: map[string]int{}}
	if strings.Count(header, ";") > strings.Count(header, ",") {
		f.Comma = ';'
	} else if !strings.Contains(header, ",") { // tabs may align a list with commas
		f.Comma = '\t'
	}
	f.commas = f.Comma != ','
	names, err := f.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty; begin it with the names of its columns: address,amount")
	} else if err != nil {
		return nil, errors.New("the header has a broken quote; name the columns in line 1: address,amount")
	}
	for i, name := range names {
		name = strings.ToLower(strings.TrimSpace(name))
		if _, twice := f.column[name]; twice && slices.Contains(payColumns, name) {
			return nil, fmt.Errorf("the header has the column %s twice; remove one", name)
		} else if as := wrongNames[name]; as != "" {
			return nil, fmt.Errorf("the column %s would be ignored; rename it to %s, or remove it", name, as)
		}
		f.column[name] = i
	}
	if f.address, err = oneOf(f.column, addressColumns...); err == nil {
		f.amount, err = oneOf(f.column, "amount", "amount_units")
	}
	return f, err
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
		return "", fmt.Errorf("name one column %s; found: %q", strings.Join(names, " or "), all)
	}
	return have[0], nil
}

// split finds what may be an amount with a comma and no quotes, as 1,50 or 1.000,50, at the end of a row.
var split = regexp.MustCompile(`^ *(\d+, *\d\d?|\d{1,3}, *\d{3}\.\d+|\d{1,3}(\.\d{3})+, *\d\d?)$`)

func (f *payFile) read(row *payRow, fields []string) (err error) {
	place := f.column[f.amount]
	text := strings.TrimSpace(fields[place])
	end := strings.TrimRight(strings.Join(fields[place:], ","), ", ")
	if f.amount == "amount" && f.Comma == ',' && !strings.Contains(text, ",") && split.MatchString(end) {
		return fmt.Errorf("%s %q may be one number or two; use a point, or move the column to the end", f.amount, end)
	}
	f.commas = f.commas || strings.Contains(text, ",")
	whole, part, dot := strings.Cut(text, ".")
	if dot && len(part) == 3 && !strings.Contains(part, ".") && !strings.HasPrefix(whole, "0") {
		f.thousands = append(f.thousands, fmt.Sprintf("line %d: %s %q may be %s%s or %s.%s; write one of these",
			row.line, f.amount, text, whole, part, whole, strings.TrimRight(part, "0")+"0")) // not three digits
	}
	if i, there := f.column["reference"]; there {
		row.reference = norm.NFC.String(strings.TrimSpace(fields[i]))
	}
	if i, there := f.column["name"]; there {
		row.name = fields[i]
	}
	if utf8.RuneCountInString(row.reference) > 128 {
		return errors.New("the reference is too long; shorten it to 128 characters")
	}
	address := fields[f.column[f.address]]
	if row.to, err = token.ParseAddress(strings.TrimSpace(address)); err != nil {
		step := "; copy it again"
		if !errors.Is(err, token.ErrChecksum) {
			step = "; an address is 0x and 40 hex digits"
		}
		return fmt.Errorf("%s %q: %w%s", f.address, address, err, step)
	}
	if f.amount == "amount" {
		places := row.asset.Decimals
		row.amount, err = token.ParseTokens(text, places)
		whole, part, _ = strings.Cut(text, ",")
		if a, wrong := token.ParseTokens(whole+"."+part, places); err != nil && wrong == nil {
			err = fmt.Errorf("has a comma; write %s", a.Tokens(places))
			if len(part) == 3 && len(whole) <= 3 && whole != "0" {
				err = fmt.Errorf("may be %s or %s; write one of these", a.Tokens(places), whole+part)
			}
		}
	} else {
		row.amount, err = token.ParseAmount(text)
	}
	if err == nil && row.amount.IsZero() {
		err = errors.New("is zero; remove the row, or correct its amount")
	}
	if err != nil {
		return fmt.Errorf("%s %q: %w", f.amount, text, err)
	}
	return nil
}
