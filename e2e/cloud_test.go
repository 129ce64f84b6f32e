// Package e2e_test deploys the repository's own template.yaml, unchanged, to
// an AWS on this machine, with every function under its own role and TLS on
// every connection, and uses it as merchants do. The chain it pays on runs in
// the test's own process.
package e2e_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

// root is the root of the repository, from here.
const root = ".."

// A cloud is an AWS that runs on this machine.
type cloud struct {
	endpoint string // https://localhost:PORT
	bundle   string // file with its certificate
	roots    *x509.CertPool
	http     *http.Client // trusts the cloud's certificate and no other
	log      string       // file with its output
	calls    calls        // of functions
	hold     io.WriteCloser
	ended    chan struct{}
}

// guard runs a command beside a shell that waits for the end of a pipe whose
// other end only the test binary holds: however that ends, the command ends too.
const guard = `"$@" </dev/null & exec >/dev/null 2>&1
trap : HUP INT TERM
read -r _
kill $!; sleep 1; kill -9 $!`

// startCloud starts ministack and returns when it answers. Functions inherit its
// environment, and with it the address at which their calls are recorded, Lambda's
// log format, and a permission that AWS never gives: webhooks to this machine.
func startCloud(ctx context.Context, dir string) (*cloud, error) {
	program, err := filepath.Abs(filepath.Join(root, ".cache/venv/bin/ministack"))
	if err != nil {
		return nil, err
	}
	if !isFile(program) {
		return nil, fmt.Errorf("%s is missing: run 'make tools'", program)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	c := &cloud{
		endpoint: fmt.Sprintf("https://localhost:%d", port), bundle: filepath.Join(dir, "cert.pem"),
		log: filepath.Join(dir, "cloud.log"), ended: make(chan struct{}), calls: calls{seen: map[right]bool{}},
	}
	key := filepath.Join(dir, "key.pem")
	if err := c.certify(key); err != nil {
		return nil, err
	}
	recorded, err := c.calls.start(c.endpoint, c.roots, c.bundle, key)
	if err != nil {
		return nil, err
	}
	output, err := os.Create(c.log)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/bin/sh", "-c", guard, "guard", program)
	cmd.Env = []string{
		"HOME=" + dir, "PATH=" + filepath.Dir(program) + ":" + os.Getenv("PATH"),
		"BIND_HOST=127.0.0.1", fmt.Sprintf("GATEWAY_PORT=%d", port), "AWS_ENDPOINT_URL=" + recorded,
		"USE_SSL=1", "MINISTACK_SSL_CERT=" + c.bundle, "MINISTACK_SSL_KEY=" + key, "AWS_CA_BUNDLE=" + c.bundle,
		"AUTH=true", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "IOT_MTLS_ENABLED=0", "SFTP_ENABLED=0",
		"WEBHOOK_LOOPBACK=allowed", "AWS_LAMBDA_LOG_FORMAT=JSON",
	}
	cmd.Stdout, cmd.Stderr = output, output
	if c.hold, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(c.ended)
		_ = cmd.Wait()
		_ = output.Close()
	}()
	return c, c.await(ctx)
}

// await returns once the cloud answers.
func (c *cloud) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.endpoint+"/_ministack/health", nil)
		if err != nil {
			return err
		}
		resp, err := c.http.Do(req)
		if err == nil {
			return resp.Body.Close()
		}
		select {
		case <-c.ended:
			printed, _ := os.ReadFile(c.log)
			return fmt.Errorf("ministack ended while starting; it printed:\n%s", printed)
		case <-ctx.Done():
			printed, _ := os.ReadFile(c.log)
			return fmt.Errorf("ministack does not answer: %w; it printed:\n%s", err, printed)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// certify writes a certificate for localhost, and its key.
func (c *cloud) certify(keyFile string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	c.roots = x509.NewCertPool()
	c.roots.AppendCertsFromPEM(certificate)
	c.http = &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: c.roots}}}
	return errors.Join(
		os.WriteFile(c.bundle, certificate, 0o600),
		os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
}

// config is the configuration of the account or role that the keys belong to.
func (c *cloud) config(accessKey, secretKey, session string) aws.Config {
	return aws.Config{
		Region: "us-east-1", BaseEndpoint: &c.endpoint,
		Credentials: credentials.NewStaticCredentialsProvider(accessKey, secretKey, session),
		HTTPClient: awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
			t.TLSClientConfig = &tls.Config{RootCAs: c.roots}
		}),
	}
}

func (c *cloud) administrator() aws.Config { return c.config("test", "test", "") }

// run runs a command of a person who deploys, at the root of the repository.
func (c *cloud) run(ctx context.Context, name string, args ...string) error {
	bin, err := filepath.Abs(filepath.Join(root, ".cache/venv/bin"))
	if err != nil {
		return err
	}
	if installed := filepath.Join(bin, name); isFile(installed) {
		name = installed
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "AWS_ENDPOINT_URL="+c.endpoint, "AWS_CA_BUNDLE="+c.bundle,
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_DEFAULT_REGION=us-east-1", "AWS_REGION=us-east-1",
		"SAM_CLI_TELEMETRY=0", "GOFLAGS=", "GORACE=")
	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &printed
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", name, args, err, printed.String())
	}
	return nil
}

func isFile(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
