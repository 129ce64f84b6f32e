package e2e_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/guidetest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

// TestKMSWallet pays from a wallet whose key is in KMS, finds its address by the signature that is mined, and
// replaces it. Its key's grants let the functions sign, which no policy does; the rights of RemitKeys are not enough
// to sign, to grant others that, or to make keys of another stack.
func TestKMSWallet(t *testing.T) {
	o := newOperator(t)
	s := o.s
	reads := kms.NewFromConfig(o.assume("kms-reader", "RemitReader"))
	o.fails("AccessDenied", "wallet", "create", "--kms", "--yes")
	o.assume("kms-operator", "RemitReader", "RemitOperator")
	o.fails("AccessDenied", "wallet", "create", "--kms", "--yes")
	keys := kms.NewFromConfig(o.assume("kms", "RemitReader", "RemitOperator", "RemitKeys"))
	var made, successor struct{ Address, Signer string }
	o.ok(nil, "wallet", "pause", "--all", "--yes", "--reason", "kms") // the others, so that the new one pays
	defer o.ok(nil, "wallet", "resume", "--all", "--yes")
	if r := o.ok(nil, "wallet", "list"); strings.Count(r.stdout,
		"  kms (by arn:aws:sts::000000000000:assumed-role/kms/") < len(s.Chain.Wallets()) {
		t.Errorf("the list does not say who paused: %s", r.stdout)
	}
	o.ok(&made, "wallet", "create", "--kms", "--yes")
	foreign := must.Get(kms.NewFromConfig(s.Administrator()).CreateKey(t.Context(), signingKey("another")))(t)
	for what, err := range map[string]error{
		"making a key, with the rights of a reader": must.Err(reads.CreateKey(t.Context(), signingKey("remit"))),
		"seeing a key, with the rights of a reader": must.Err(reads.GetPublicKey(t.Context(), &kms.GetPublicKeyInput{KeyId: &made.Signer})),
		"letting others sign": must.Err(keys.CreateGrant(t.Context(), &kms.CreateGrantInput{KeyId: &made.Signer,
			GranteePrincipal: aws.String("arn:aws:iam::000000000000:role/kms"),
			Operations:       []kmstypes.GrantOperation{kmstypes.GrantOperationSign}})),
		"taking the key of another stack": must.Err(keys.TagResource(t.Context(),
			&kms.TagResourceInput{KeyId: foreign.KeyMetadata.Arn, Tags: signingKey("remit").Tags})),
		"making a key of another stack": must.Err(keys.CreateKey(t.Context(), signingKey("another"))),
		"making a key of no stack": must.Err(keys.CreateKey(t.Context(),
			&kms.CreateKeyInput{KeySpec: kmstypes.KeySpecEccSecgP256k1, KeyUsage: kmstypes.KeyUsageTypeSignVerify})),
		"seeing a key of another stack": must.Err(keys.GetPublicKey(t.Context(), &kms.GetPublicKeyInput{KeyId: foreign.KeyMetadata.Arn})),
		"signing": must.Err(keys.Sign(t.Context(), &kms.SignInput{KeyId: &made.Signer, Message: make([]byte, 32),
			MessageType: kmstypes.MessageTypeDigest, SigningAlgorithm: kmstypes.SigningAlgorithmSpecEcdsaSha256})),
	} {
		if !refusal(err) {
			t.Errorf("%s: %v", what, err)
		}
	}

	admin := kms.NewFromConfig(s.Administrator())
	grants := func(key string, want int) (id string) {
		t.Helper()
		found, err := admin.ListGrants(t.Context(), &kms.ListGrantsInput{KeyId: &key})
		if err != nil || len(found.Grants) != want {
			t.Fatalf("%d grants on %s, want %d: %v", len(found.Grants), key, want, err)
		}
		for _, g := range found.Grants {
			id = *g.GrantId
		}
		return id
	}
	id := grants(made.Signer, 4)
	must.Get(admin.RevokeGrant(t.Context(), &kms.RevokeGrantInput{KeyId: &made.Signer, GrantId: &id}))(t)
	if r := o.run("doctor"); !strings.Contains(r.stdout,
		"may not sign for "+made.Address+": remit wallet import --kms "+made.Signer) {
		t.Errorf("doctor does not miss a grant: %s", r.stdout)
	}
	for range 2 {
		o.ok(nil, "wallet", "import", "--kms", made.Signer, "--yes")
		grants(made.Signer, 4)
	}

	to := must.Get(token.ParseAddress(made.Address))(t)
	must.OK(t, devnet.Give(t.Context(), s.Chain.URL(), to, token.Units(5_000_000), token.Units(1e18)))
	s.restart(t, "SendPayment")
	defer s.restart(t, "SendPayment") // which has the retired wallet in its registry
	hash := newMerchant(t, s).paid("kms", 61)
	node := must.Get(ethclient.DialContext(t.Context(), s.Chain.URL()))(t)
	defer node.Close()
	tx, pending, err := node.TransactionByHash(t.Context(), common.HexToHash(hash))
	if err != nil || pending {
		t.Fatalf("pending %t, %v", pending, err)
	}
	if from, err := types.Sender(types.LatestSignerForChainID(tx.ChainId()), tx); err != nil || from != common.Address(to) {
		t.Errorf("the signature is of %s, not of %s: %v", from, to, err)
	}
	if !s.usedRights()[right{"SendPaymentFunction", "kms:Sign", "key/*"}] {
		t.Error("send-payment did not ask KMS")
	}

	o.ok(nil, "wallet", "drain", "--yes", made.Address)
	must.Get(dynamodb.NewFromConfig(s.Administrator()).UpdateItem(t.Context(),
		&dynamodb.UpdateItemInput{ // five minutes pass, in which processes may pay from it
			TableName: aws.String(s.Outputs["PaymentsTableName"]), UpdateExpression: aws.String("SET since = :s"),
			Key: map[string]dbtypes.AttributeValue{"pk": text("wallets#" + tx.ChainId().String()),
				"sk": text("wallet#" + made.Address)},
			ExpressionAttributeValues: map[string]dbtypes.AttributeValue{
				":s": text(time.Now().Add(-5 * time.Minute).UTC().Format("2006-01-02T15:04:05.000000000Z"))},
		}))(t)
	o.ok(&successor, "wallet", "create", "--kms", "--yes")
	page := strings.NewReplacer("remit ", "", "wallet list\n", "", "0x…", made.Address, "0xfrom…", made.Address,
		"0xto…", successor.Address).Replace(guidetest.Read(t, root, "docs/operate.md", "remit wallet drain"))
	for line := range strings.Lines(page) {
		until(t, line, func() bool {
			s.invoke(t, "CheckReceipts", sample(t, "check-receipts")) // before the schedule does
			return o.run(append(strings.Fields(line), "--yes")...).code == 0
		})
	}
	if r := o.run("doctor", "--only", successor.Address[:10]); !strings.Contains(r.stdout, " 4.999939 ") {
		t.Errorf("%s is not swept to %s: %s", made.Address, successor.Address, r.stdout)
	}
	grants(made.Signer, 0)
	if !s.usedRights()[right{"CheckReceiptsFunction", "kms:Sign", "key/*"}] {
		t.Error("check-receipts did not sign for an operator")
	}
	o.ok(nil, "wallet", "drain", "--yes", successor.Address)
	o.ok(nil, "wallet", "retire", "--yes", "--unswept", successor.Address)
	o.unseen()
}

// signingKey describes a key of a stack's wallet.
func signingKey(stack string) *kms.CreateKeyInput {
	return &kms.CreateKeyInput{KeySpec: kmstypes.KeySpecEccSecgP256k1, KeyUsage: kmstypes.KeyUsageTypeSignVerify,
		Tags: []kmstypes.Tag{{TagKey: aws.String("remit-stack"), TagValue: &stack}}}
}

// restart publishes a function anew, as a deployment does: its processes read settings when they start.
func (s *stack) restart(t *testing.T, function string) {
	t.Helper()
	functions, name := lambda.NewFromConfig(s.Administrator()), aws.String(s.Resources[function+"Function"])
	must.Get(functions.UpdateFunctionConfiguration(t.Context(),
		&lambda.UpdateFunctionConfigurationInput{FunctionName: name, Description: aws.String(time.Now().String())}))(t)
	version := must.Get(functions.PublishVersion(t.Context(), &lambda.PublishVersionInput{FunctionName: name}))(t)
	must.Get(functions.UpdateAlias(t.Context(),
		&lambda.UpdateAliasInput{FunctionName: name, Name: aws.String("live"), FunctionVersion: version.Version}))(t)
}

// TestWalletKeyReads holds CloudTrail's records of calls against the pattern of the deployed rule. The local AWS keeps
// such records of no call and counts no matches: AWS alone shows that CloudTrail's go to the rule and are counted.
func TestWalletKeyReads(t *testing.T) {
	s := start(t)
	ask := func(operation string, in, out any) {
		t.Helper()
		body, _ := json.Marshal(in)
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, s.Endpoint, bytes.NewReader(body)))(t)
		r.Header.Set("Content-Type", "application/x-amz-json-1.1")
		r.Header.Set("X-Amz-Target", "AWSEvents."+operation)
		sum := sha256.Sum256(body)
		as := aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}
		must.OK(t, v4.NewSigner().SignHTTP(t.Context(), as, r, hex.EncodeToString(sum[:]), "events", s.Region, time.Now()))
		answer := must.Get(s.HTTP.Do(r))(t)
		defer func() { _ = answer.Body.Close() }()
		if err := json.NewDecoder(answer.Body).Decode(out); err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v", operation, answer.Status, err)
		}
	}
	var rule struct{ Name, EventPattern string }
	ask("DescribeRule", map[string]string{"Name": s.Resources["WalletKeyReads"]}, &rule)
	role := func(name string) map[string]any {
		return map[string]any{"type": "AssumedRole",
			"sessionContext": map[string]any{"sessionIssuer": map[string]string{"arn": "arn:aws:iam::000000000000:role/" + name}}}
	}
	words := map[string]string{"key": s.Outputs["WalletSecrets"] + s.Chain.Wallets()[0].Address.String(), "nodes": s.Outputs["RpcSecretArn"]}
	for _, c := range tabletest.Read(t, words) {
		name, ours := s.Resources[c.In[2]]
		if !ours && c.In[2] != "eve" && c.In[2] != "user" {
			t.Fatalf("%s: the stack has no role %s", c.Name, c.In[2])
		}
		call, secret, who := c.In[0], c.In[1], role(cmp.Or(name, "eve"))
		if c.In[2] == "user" {
			who = map[string]any{"type": "IAMUser", "arn": "arn:aws:iam::000000000000:user/eve"}
		}
		service, asked := "secretsmanager", map[string]string{"secretId": secret}
		if call == "Sign" || call == "GetPublicKey" {
			service, asked = "kms", map[string]string{"keyId": "1", "signingAlgorithm": cmp.Or(secret, "ECDSA_SHA_256")}
		}
		record, _ := json.Marshal(map[string]any{
			"id": "1", "account": "000000000000", "time": "2026-01-31T18:30:00Z", "region": s.Region,
			"resources": []string{}, "source": "aws." + service, "detail-type": "AWS API Call via CloudTrail",
			"detail": map[string]any{"eventSource": service + ".amazonaws.com", "eventName": call,
				"requestParameters": asked, "userIdentity": who},
		})
		var matched struct{ Result bool }
		if ask("TestEventPattern", map[string]string{"EventPattern": rule.EventPattern, "Event": string(record)},
			&matched); matched.Result != (c.Want == "noticed") {
			t.Errorf("%s: noticed %t", c.Name, matched.Result)
		}
	}
}
