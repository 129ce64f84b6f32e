package main_test

import (
	"fmt"
	"strings"

	"remit/internal/httpapi"
)

// A member is a name and its value as JSON.
type member struct{ name, value string }

// members are those of a good body of the route.
func members(route httpapi.Route) []member {
	switch {
	case route.Method == "GET":
		return nil
	case route.Path == "/send-payment":
		return []member{{"to", `"0x1111111111111111111111111111111111111111"`}, {"amount", "1"}, {"reference", `"¤"`}, {"metadata", `{"¤":"¤"}`}}
	case route.Path == "/create-api-key":
		return []member{{"merchant_name", `"¤"`}}
	case route.Path == "/webhooks":
		return []member{{"url", `"http://127.0.0.1:9/¤"`}, {"description", `"¤"`}, {"event_types", `["payment.failed"]`}}
	case route.Path == "/webhooks/{id}":
		return []member{{"description", `"¤"`}, {"status", `"enabled"`}}
	case strings.Contains(route.Path, "/rotate"):
		return []member{{"expires_in_seconds", "60"}}
	}
	return []member{}
}

// body makes a body for the route, empty where none belongs.
func (m maker) body(route httpapi.Route) string {
	all := members(route)
	if all == nil && !m.one(10) {
		return ""
	}
	if m.one(2) {
		switch i := m.IntN(len(all) + 1); {
		case i == len(all):
			all = append(all, member{m.of(append(oddNames, "amount", "url", "to")...), m.of(oddValues...)})
		case m.one(3):
			all[i].name = m.of(append(oddNames, strings.ToUpper(all[i].name), all[i].name+`\u0000`, `\u0061`+all[i].name[1:])...)
		default:
			all[i].value = m.of(oddValues...)
		}
		if len(all) > 0 && m.one(10) {
			all = append(all, all[0])
		}
	}
	texts := make([]string, len(all))
	for i, field := range all {
		texts[i] = fmt.Sprintf(`"%s":%s`, field.name, field.value)
	}
	good := m.of("{" + strings.Join(texts, ",") + "}")
	if !m.one(4) {
		return good
	}
	return m.of("", "§", `"§"`, "[§]", "["+good+"]", "\xef\xbb\xbf"+good, good+"§", good+good, good+"\x00", "\x00"+good, "\xff\xfe{\x00}\x00", strings.Repeat("[", 60_000), strings.Repeat(`{"§":`, 50),
		strings.Repeat(`{"a":`, 8)+"1"+strings.Repeat("}", 8), `{"§":1,"§":2}`, `{"§":"`+m.long(130_000)+`"}`, good+strings.Repeat(" ", 65_536-min(len(good), 65_536)), good+strings.Repeat(" ", 65_536),
		"\x1f\x8b\x08\x00§", "<html>§", "§=1&b=2", "{'§':1}", `{"§":1,}`, "//§\n"+good, "/*§*/"+good, "nul\x00", "true", "NaN", "-", "1e", `"\u`, `{"__proto__":{"§":1}}`, good[:m.IntN(len(good))],
		"--§\r\nContent-Disposition: form-data; name=\"§\"\r\n\r\n1\r\n--§--", "\r\n\r\n"+good, good+"\r\n\r\n", strings.ReplaceAll(good, ":", "="), strings.ReplaceAll(good, `"`, "“"))
}

var oddNames = []string{"§", "", "__proto__", `\ud800§`, `§\u0000`, "\x00§", "\xff§", "<§>", "Amount", "TO", "wallet_address", "idempotency_key", "$where"}

// What may be stored has the word that may be.
var oddValues = []string{
	"1e99999999", "1e-99999999", "-0", "-1", "1.5", "0", "1e400", "0x10", "01", "1e77", "115792089237316195423570985008687907853269984665640564039457584007913129639936", strings.Repeat("9", 200),
	"1." + strings.Repeat("0", 90), "NaN", "Infinity", "true", "null", `"¤"`, "[]", "{}", `[["¤"]]`, `{"¤":{"¤":1}}`, `"\ud800¤"`, `"¤\udc00\ud800"`, `"\u0000¤"`, "\"¤\x00\"", "\"¤\xff\"", `"\u202e¤"`, "\"¤\n\"", `"\x"`,
	`"¤`, "¤", `"💩¤"`, `" "`, `""`, `"\u0085¤"`, `"<script>¤</script>"`, `"${jndi:ldap://¤}"`, `"'; DROP TABLE ¤; --"`, `"../../¤"`, `"0x¤"`, `"0X1111111111111111111111111111111111111111"`,
	`"0x0000000000000000000000000000000000000000"`, `"0x5aaeb6053F3E94C9b9A09f33669435E7Ef1BeAed"`, `"ftp://¤"`, `"https://user:¤@127.0.0.1/"`, `"https://[::1"`, `"http://169.254.169.254/¤"`,
	`"http://127.0.0.1:9/#¤"`, `"https://0177.0.0.1/¤"`, `"http://localhost:9/¤"`, `"https://[fe80::1%25¤]/"`, `["payment.¤"]`, `["payment.failed","payment.failed"]`, `[1]`, `"disabled"`, `"¤` + strings.Repeat("x", 2_100) + `"`,
	strings.Repeat("[", 9) + strings.Repeat("]", 9), `{"` + strings.Repeat("x", 41) + `":"¤"}`, `{"a":1}`, `{"":""}`, `{"a":"` + strings.Repeat("x", 501) + `"}`, "604800", "604801", "1e3",
}

// framed says how long a body is, well or badly, and returns it as it is sent.
// clean tells that nothing follows it.
func (m maker) framed(body string) (clean bool, headers []string, sent string) {
	length := func(n int) string { return fmt.Sprintf("Content-Length: %d", n) }
	if body == "" && !m.one(10) {
		return true, nil, ""
	}
	half := m.IntN(len(body) + 1)
	chunks := fmt.Sprintf("%x\r\n%s\r\n%x\r\n%s\r\n", half, body[:half], len(body)-half, body[half:])
	if half == 0 || half == len(body) {
		chunks = fmt.Sprintf("%x\r\n%s\r\n", len(body), body)
	}
	if body == "" {
		chunks = ""
	}
	const chunked = "Transfer-Encoding: chunked"
	if !m.one(5) {
		if m.one(8) {
			return true, []string{chunked}, chunks + "0\r\n\r\n"
		}
		return true, []string{length(len(body))}, body
	}
	switch m.IntN(12) {
	case 0:
		return false, []string{length(len(body) + 5)}, body
	case 1:
		return false, []string{length(half)}, body
	case 2:
		return false, nil, body
	case 3:
		return false, []string{length(len(body)), length(len(body))}, body
	case 4:
		return false, []string{length(len(body)), length(half)}, body
	case 5:
		return false, []string{length(len(body)), chunked}, chunks + "0\r\n\r\n"
	case 6:
		return false, []string{length(len(body)), chunked}, body
	case 7:
		return false, []string{chunked}, chunks // without an end
	case 8:
		return false, []string{chunked}, m.of("zz\r\n§\r\n", "-1\r\n§\r\n", "fffffffffffffffff\r\n§\r\n", "5\r\n§", "\r\n\r\n", "0x5\r\nabcde\r\n0\r\n\r\n")
	case 9:
		return false, []string{chunked}, "1;§=\"§\"\r\n{\r\n1\r\n}\r\n0\r\n\r\n"
	case 10:
		return false, []string{chunked, m.of("Trailer: §")}, chunks + "0\r\n" + m.of("X-Api-Key: §", "§: 1", "Content-Length: 9", "§", "X: "+m.long(40_000)) + "\r\n\r\n"
	}
	return false, []string{chunked, chunked}, chunks + "0\r\n\r\n"
}
