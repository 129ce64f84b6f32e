package httpapi_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/proof/tabletest"
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

func TestMerchantNames(t *testing.T) { answers(t, newAPI, `POST /create-api-key {"merchant_name":%s}`) }

// TestKeyCreationByOperator: where only an operator creates keys, every request
// is refused before its body is read.
func TestKeyCreationByOperator(t *testing.T) {
	for _, body := range []string{`{"merchant_name":"x"}`, `{}`, ``, "\xff"} {
		newAPI(t).play("keys by an operator only", "POST /create-api-key "+body).want(t, 403, `{"detail":`, `"code":"key_creation_closed"`)
	}
}

// TestKeyLife: create, list, rotate with an overlap, expire, revoke.
func TestKeyLife(t *testing.T) {
	a := newAPI(t)
	id, old := a.keyID(), "X-Api-Key: "+a.key
	a.now = a.now.Add(time.Hour)
	rotated := a.post("/api-keys/"+id+"/rotate", `{"expires_in_seconds":600}`)
	rotated.want(t, 201, `"last_used_at":null,"expires_at":null,"revoked_at":null,"label":null`)
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
	if again := a.post("/api-keys/"+id+"/revoke", `{}`, fresh); again.status != 200 ||
		again.member(t, "revoked_at") != revoked.member(t, "revoked_at") {
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
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		a := newAPI(t)
		got := a.play("POST /api-keys/" + words["key"] + "/rotate " + c.In[0])
		if got.status == 201 { // the new key shows when the old one ends
			got = a.get("/api-keys", "X-Api-Key: "+got.member(t, "api_key"))
		}
		got.outcome(t, c.Want)
	})
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
