package httpapi_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"remit/internal/httpapi"
)

var keyText = regexp.MustCompile(`remit_(test|live)_[0-9A-Za-z]{12}_[0-9A-Za-z]+`)

// member reads one string of an answer's body.
func (got answered) member(t *testing.T, name string) string {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal([]byte(got.body), &body); err != nil {
		t.Fatalf("%v in %s", err, got.body)
	}
	return fmt.Sprint(body[name])
}

func TestMerchantNames(t *testing.T) {
	for _, test := range []struct{ name, value, want string }{ // want: type of the refusal, empty when taken
		{"a name", `"Acme Coffee"`, ""},
		{"a name is not trimmed", `" Acme "`, ""},
		{"100 characters of four bytes", `"` + strings.Repeat("😀", 100) + `"`, ""},
		{"101 characters", `"` + strings.Repeat("é", 101) + `"`, "string_too_long"},
		{"an empty one", `""`, "string_too_short"},
		{"a blank", `" "`, "blank"},
		{"Unicode blanks", `"\u2003\u3000"`, "blank"},
		{"a line feed", `"a\nb"`, "control_character"},
		{"a NUL", `"a\u0000"`, "control_character"},
		{"DEL", `"a\u007f"`, "control_character"},
		{"a C1 control", `"a\u0085"`, "control_character"},
		{"half a surrogate pair", `"\udc00"`, "json_invalid"},
		{"null", `null`, "string_type"},
		{"a number", `1`, "string_type"},
		{"a list", `["x"]`, "string_type"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := newAPI(t).post("/create-api-key", `{"merchant_name":`+test.value+`}`)
			if test.want == "" {
				got.want(t, 201)
				var name string
				if err := json.Unmarshal([]byte(test.value), &name); err != nil || got.member(t, "merchant_name") != name {
					t.Errorf("answered %s", got.body)
				}
				return
			}
			got.want(t, 422, `"type":"`+test.want+`"`)
		})
	}
}

// TestEveryCallMakesAMerchant: two calls with one name make two merchants.
func TestEveryCallMakesAMerchant(t *testing.T) {
	a := newAPI(t)
	one := a.post("/create-api-key", `{"merchant_name":"Same"}`)
	two := a.post("/create-api-key", `{"merchant_name":"Same"}`)
	for _, name := range []string{"api_key", "id", "merchant_id"} {
		if one.member(t, name) == two.member(t, name) {
			t.Errorf("both have the %s %s", name, one.member(t, name))
		}
	}
	a.get("/api-keys", "X-Api-Key: "+two.member(t, "api_key")).want(t, 200, two.member(t, "id"))
}

// TestKeyCreationByOperator: where only an operator creates keys, every request
// is refused before its body is read.
func TestKeyCreationByOperator(t *testing.T) {
	e := httpapi.CreateAPIKey(func() string { return "req-1" }, nil)
	for _, body := range []string{`{"merchant_name":"x"}`, `{}`, ``, "\xff"} {
		a := newAPI(t)
		r := a.request("POST", "/create-api-key", body)
		a.serve(e, r).want(t, 403, `{"detail":`, `"code":"key_creation_closed"`)
	}
}

// TestKeyLife: create, list, rotate with an overlap, expire, revoke.
func TestKeyLife(t *testing.T) {
	a := newAPI(t)
	id, old := a.keyID(), "X-Api-Key: "+a.key
	a.now = a.now.Add(time.Hour)
	rotated := a.post("/api-keys/"+id+"/rotate", `{"expires_in_seconds":600}`)
	rotated.want(t, 201, `"last_used_at":null,"expires_at":null,"revoked_at":null`)
	fresh := "X-Api-Key: " + rotated.member(t, "api_key")

	list := a.get("/api-keys", fresh)
	list.want(t, 200, `"expires_at":"2026-01-02T16:14:05.000Z"`)
	if strings.Index(list.body, rotated.member(t, "id")) > strings.Index(list.body, id) {
		t.Errorf("the newest key is not first: %s", list.body)
	}
	if found := keyText.FindAllString(list.body, -1); found != nil {
		t.Errorf("the list shows %d keys themselves", len(found))
	}
	a.now = a.now.Add(10*time.Minute - time.Millisecond)
	a.get("/api-keys", old).want(t, 200)
	a.now = a.now.Add(time.Millisecond)
	a.get("/api-keys", old).want(t, 401)
	a.get("/api-keys", fresh).want(t, 200)

	revoked := a.post("/api-keys/"+id+"/revoke", ``, fresh)
	revoked.want(t, 200, `"revoked_at":"2026-01-02T16:14:05.000Z"`)
	a.now = a.now.Add(time.Hour)
	if again := a.post("/api-keys/"+id+"/revoke", `{}`, fresh); again.status != 200 || again.member(t, "revoked_at") != revoked.member(t, "revoked_at") {
		t.Errorf("revoking twice answers %d %s", again.status, again.body)
	}
	self := a.post("/api-keys/"+rotated.member(t, "id")+"/revoke", ``, fresh)
	self.want(t, 200)
	a.get("/api-keys", fresh).want(t, 401)
	for _, got := range []answered{revoked, self} {
		if keyText.MatchString(got.body) {
			t.Error("revoking shows the key itself")
		}
	}
}

// TestOverlaps: 0 to 604800 seconds, a day by default.
func TestOverlaps(t *testing.T) {
	for _, test := range []struct{ name, body, want string }{ // want: when the old key ends, or the type of the refusal
		{"a day when nothing is said", `{}`, "2026-01-03T15:04:05.000Z"},
		{"a day for null", `{"expires_in_seconds":null}`, "2026-01-03T15:04:05.000Z"},
		{"at once", `{"expires_in_seconds":0}`, "2026-01-02T15:04:05.000Z"},
		{"a week", `{"expires_in_seconds":604800}`, "2026-01-09T15:04:05.000Z"},
		{"a week, written another way", `{"expires_in_seconds":6.048e5}`, "2026-01-09T15:04:05.000Z"},
		{"a week and a second", `{"expires_in_seconds":604801}`, "too_large"},
		{"for ever", `{"expires_in_seconds":1e30}`, "too_large"},
		{"before now", `{"expires_in_seconds":-1}`, "not_positive"},
		{"half a second", `{"expires_in_seconds":0.5}`, "not_integral"},
		{"a string", `{"expires_in_seconds":"60"}`, "number_type"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newAPI(t)
			got := a.post("/api-keys/"+a.keyID()+"/rotate", test.body)
			if test.want[0] != '2' {
				got.want(t, 422, `"type":"`+test.want+`","loc":["body","expires_in_seconds"]`)
				return
			}
			got.want(t, 201)
			a.get("/api-keys", "X-Api-Key: "+got.member(t, "api_key")).want(t, 200, `"expires_at":"`+test.want+`"`)
		})
	}
}

// TestOthersKeys: acting on another merchant's key is 404.
func TestOthersKeys(t *testing.T) {
	a := newAPI(t)
	other := a.otherMerchant()
	for _, id := range []string{other.Key.ID, "key_unknown", "x", "%00", "key_" + strings.Repeat("a", 3000)} {
		for _, action := range []string{"rotate", "revoke"} {
			a.post("/api-keys/"+id+"/"+action, ``).want(t, 404, `{"detail":"No such API key.","code":"api_key_not_found"}`)
		}
	}
	a.get("/api-keys", "X-Api-Key: "+other.Secret.Reveal()).want(t, 200, `"revoked_at":null`)
}

// TestLastUse: at most a minute behind.
func TestLastUse(t *testing.T) {
	a := newAPI(t)
	a.get("/api-keys")
	a.now = a.now.Add(59 * time.Second)
	a.get("/api-keys").want(t, 200, `"last_used_at":"2026-01-02T15:04:05.000Z"`)
	a.now = a.now.Add(time.Second)
	a.get("/api-keys")
	a.get("/api-keys").want(t, 200, `"last_used_at":"2026-01-02T15:05:05.000Z"`)
}
