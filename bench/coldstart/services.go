package coldstart

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"remit/bench/rig"
	"remit/internal/dynamo"
	"remit/internal/dynamo/dynamotest"
)

// services are what functions find around them: DynamoDB Local, a chain, and
// secrets and queues that answer at once.
type services struct {
	env     []string
	closers []func()
}

func (s *services) close() {
	for i := len(s.closers) - 1; i >= 0; i-- {
		s.closers[i]()
	}
}

var tables = dynamo.Tables{APIKeys: "bench-keys", Payments: "bench-payments", Webhooks: "bench-webhooks"}

func openServices(ctx context.Context) (*services, error) {
	s := &services{}
	endpoint, end, err := dynamotest.Open()
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, end)
	db := dynamodb.New(dynamodb.Options{Region: "us-east-1", BaseEndpoint: aws.String(endpoint),
		Credentials: credentials.NewStaticCredentialsProvider("bench", "bench", "")})
	if err := dynamo.CreateTables(ctx, db, tables); err != nil {
		s.close()
		return nil, err
	}
	chain, err := rig.StartChain(ctx, 4)
	if err != nil {
		s.close()
		return nil, err
	}
	s.closers = append(s.closers, func() { _ = chain.Close() })
	stub, err := openStub(ctx, chain)
	if err != nil {
		s.close()
		return nil, err
	}
	s.closers = append(s.closers, func() { _ = stub.server.Close() })
	s.env = environment(chain, endpoint, stub.url)
	return s, nil
}

// environment is every variable that template.yaml gives a function.
func environment(chain *rig.Chain, dynamodb, stub string) []string {
	coin := chain.Token()
	return []string{
		"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=bench", "AWS_SECRET_ACCESS_KEY=bench",
		"AWS_ENDPOINT_URL=" + stub, "AWS_ENDPOINT_URL_DYNAMODB=" + dynamodb,
		"AWS_LAMBDA_LOG_FORMAT=JSON", "AWS_LAMBDA_LOG_LEVEL=INFO", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE=512",
		"STACK=bench", "MODE=test", "NETWORK=bench", "KEY_CREATION=public", "WEBHOOK_LOOPBACK=allowed",
		"API_KEYS_TABLE=" + tables.APIKeys, "PAYMENTS_TABLE=" + tables.Payments, "WEBHOOKS_TABLE=" + tables.Webhooks,
		"WALLET_SECRET=wallets", "RPC_SECRET=rpc", "SETTLE_QUEUE_URL=" + stub + "/settle", "WEBHOOK_QUEUE_URL=" + stub + "/webhooks",
		fmt.Sprint("CHAIN_ID=", chain.ID()), "TOKEN_ADDRESS=" + coin.Contract.String(), "TOKEN_SYMBOL=" + coin.Symbol,
		fmt.Sprint("TOKEN_DECIMALS=", coin.Decimals), "CONFIRMATION_RULE=2", "BLOCK_TIME=250ms", "NONCE_WINDOW=64",
		"AMOUNT_MINIMUM=1", "AMOUNT_MAXIMUM=0", "DAILY_LIMIT=0", "MAX_FEE_CAP_GWEI=500",
	}
}

// A stub is Secrets Manager and SQS, as far as functions use them.
type stub struct {
	server  *http.Server
	url     string
	secrets map[string]string
}

func openStub(ctx context.Context, chain *rig.Chain) (*stub, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	var entries []string
	for _, w := range chain.Wallets() {
		entries = append(entries, fmt.Sprintf(`{"private_key":%q}`, w.PrivateKey()))
	}
	s := &stub{url: "http://" + listener.Addr().String(), secrets: map[string]string{
		"wallets": `{"wallets":[` + strings.Join(entries, ",") + `]}`,
		"rpc":     fmt.Sprintf(`{"urls":[%q]}`, chain.URL()),
	}}
	s.server = &http.Server{Handler: s}
	go func() { _ = s.server.Serve(listener) }()
	return s, nil
}

// ServeHTTP speaks the JSON protocols of both services.
func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		SecretID    string `json:"SecretId"`
		MessageBody string `json:"MessageBody"`
	}
	body, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(body, &in)
	var out any
	switch _, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), "."); operation {
	case "GetSecretValue":
		out = map[string]any{"Name": in.SecretID, "SecretString": s.secrets[in.SecretID], "VersionId": "00000000-0000-0000-0000-000000000001"}
	case "SendMessage":
		sum := md5.Sum([]byte(in.MessageBody)) // the SDK compares it
		out = map[string]any{"MessageId": "1", "MD5OfMessageBody": hex.EncodeToString(sum[:])}
	default:
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	_ = json.NewEncoder(w).Encode(out)
}
