// Package localaws deploys the repository's own template.yaml, unchanged, to an AWS on this machine, with every
// function under its own role and TLS on every connection. The chain that it pays on runs in the caller's process.
// Tests of the deployment use it, and people who practise on one with `make stage`.
package localaws

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	_ "embed"
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
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"

	remit "github.com/remit-payouts/remit/sdk/go"
)

// A Config lists the files that a Cloud starts from, and its progress writer.
type Config struct {
	Root     string    // of the repository
	Dir      string    // for the files of the cloud and of the deployment
	Remit    string    // the operators' command, by which the stack is set up
	Progress io.Writer // gets a line for every step that takes seconds

	// Between returns the URL at which functions find the cloud, which serves under
	// the certificate in c.Bundle and keyFile. Nil gives them the cloud's own.
	Between func(c *Cloud, keyFile string) (string, error)
}

// A Cloud is an AWS that runs on this machine.
type Cloud struct {
	Config
	Endpoint string       // https://localhost:PORT
	Bundle   string       // file with its certificate
	HTTP     *http.Client // trusts the cloud's certificate and no other
	Log      string       // file with its output
	Region   string       // that commands and clients are about

	roots *x509.CertPool
	hold  io.WriteCloser
	ended chan struct{}
}

// guard runs a command beside a shell that waits for the end of a pipe whose
// other end only this process holds: however that ends, the command ends too.
const guard = `"$@" </dev/null & exec >/dev/null 2>&1
trap : HUP INT TERM
read -r _
kill $!; sleep 1; kill -9 $!`

// startCloud starts ministack, with the rights that cloud.py adds, and returns when it answers. Functions inherit its
// environment, and with it Lambda's log format and a permission that AWS never gives: webhooks to this machine.
func startCloud(ctx context.Context, config Config) (*Cloud, error) {
	c := &Cloud{Config: config, Region: "us-east-1", ended: make(chan struct{}),
		Bundle: filepath.Join(config.Dir, "cert.pem"), Log: filepath.Join(config.Dir, "cloud.log")}
	python, err := c.tool("python")
	if err != nil {
		return nil, err
	}
	program, err := filepath.Abs(filepath.Join(c.Root, "e2e/localaws/cloud.py"))
	if err != nil {
		return nil, err
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	c.Endpoint = fmt.Sprintf("https://localhost:%d", port)
	key := filepath.Join(c.Dir, "key.pem")
	if err := c.certify(key); err != nil {
		return nil, err
	}
	functions := c.Endpoint
	if c.Between != nil {
		if functions, err = c.Between(c, key); err != nil {
			return nil, err
		}
	}
	output, err := os.Create(c.Log)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/bin/sh", "-c", guard, "guard", python, program)
	cmd.Env = []string{"HOME=" + c.Dir, "TMPDIR=" + c.Dir, "PATH=" + filepath.Dir(python) + ":" + os.Getenv("PATH"),
		"BIND_HOST=127.0.0.1", fmt.Sprintf("GATEWAY_PORT=%d", port),
		"AWS_ENDPOINT_URL=" + functions, "USE_SSL=1", "MINISTACK_SSL_CERT=" + c.Bundle, "MINISTACK_SSL_KEY=" + key,
		"AWS_CA_BUNDLE=" + c.Bundle, "SSL_CERT_FILE=" + c.Bundle, "AUTH=true", "AWS_ACCESS_KEY_ID=test",
		"AWS_SECRET_ACCESS_KEY=test", "IOT_MTLS_ENABLED=0", "SFTP_ENABLED=0", "WEBHOOK_LOOPBACK=allowed", "AWS_LAMBDA_LOG_FORMAT=JSON"}
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
	if err := c.step("Starting the local AWS", func() error { return c.await(ctx) }); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close ends the cloud and forgets all that is in it.
func (c *Cloud) Close() {
	_ = c.hold.Close() // it is closed already if the cloud has ended by itself
	<-c.ended
}

// step reports a step while it lasts: a dot for each two seconds, then its end.
func (c *Cloud) step(name string, do func() error) error {
	began := time.Now()
	fmt.Fprintf(c.Progress, "%s ", name)
	done := make(chan error, 1)
	go func() { done <- do() }()
	for tick := time.NewTicker(2 * time.Second); ; {
		select {
		case <-tick.C:
			fmt.Fprint(c.Progress, ".")
		case err := <-done:
			tick.Stop()
			fmt.Fprintf(c.Progress, " %.0f s\n", time.Since(began).Seconds())
			return err
		}
	}
}

// await returns once the cloud answers.
func (c *Cloud) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Endpoint+"/_ministack/health", nil)
		if err != nil {
			return err
		}
		resp, err := c.HTTP.Do(req)
		if err == nil {
			return resp.Body.Close()
		}
		select {
		case <-c.ended:
			printed, _ := os.ReadFile(c.Log)
			return fmt.Errorf("ministack ended while starting; it printed:\n%s", printed)
		case <-ctx.Done():
			printed, _ := os.ReadFile(c.Log)
			return fmt.Errorf("ministack does not answer: %w; it printed:\n%s", err, printed)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// certify writes a certificate for localhost, and its key.
func (c *Cloud) certify(keyFile string) error {
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
	c.HTTP = &http.Client{Timeout: time.Minute,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: c.roots}, MaxIdleConnsPerHost: 100}}
	return errors.Join(os.WriteFile(c.Bundle, certificate, 0o600),
		os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
}

// Account returns the configuration of the account or role that the keys belong to.
func (c *Cloud) Account(accessKey, secretKey, session string) aws.Config {
	return aws.Config{
		Region: c.Region, BaseEndpoint: &c.Endpoint,
		Credentials: credentials.NewStaticCredentialsProvider(accessKey, secretKey, session),
		HTTPClient: awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
			t.TLSClientConfig = &tls.Config{RootCAs: c.roots}
		}),
	}
}

// Administrator returns the configuration of the account that may do all.
func (c *Cloud) Administrator() aws.Config { return c.Account("test", "test", "") }

// Environment returns the variables with which the AWS CLI, the SAM CLI and remit find the cloud, as its administrator.
func (c *Cloud) Environment() []string {
	return []string{"AWS_ENDPOINT_URL=" + c.Endpoint, "AWS_CA_BUNDLE=" + c.Bundle, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test",
		"AWS_DEFAULT_REGION=" + c.Region, "AWS_REGION=" + c.Region, "SAM_CLI_TELEMETRY=0", "SAM_CLI_POLL_DELAY=0.5"}
}

// Run runs a command of a person who deploys, at the root of the repository.
func (c *Cloud) Run(ctx context.Context, name string, args ...string) error {
	if installed, err := c.tool(name); err == nil {
		name = installed
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = c.Root
	cmd.Env = append(append(os.Environ(), c.Environment()...), "GOFLAGS=", "GORACE=")
	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &printed
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its children end with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", name, args, err, printed.String())
	}
	return nil
}

// tool returns the path of a program that tools/install has installed.
func (c *Cloud) tool(name string) (string, error) {
	path, err := filepath.Abs(filepath.Join(c.Root, ".cache/venv/bin", name))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s is missing: run 'make tools'", path)
	}
	return path, nil
}

// FreePort returns a port of loopback on which nothing listens at the moment.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// variables is the file that a shell reads to address the stack, below the root of the repository.
const variables = ".cache/stage.env"

// Invite explains how to use the stack from a shell, where remit is in the directory
// bin. It makes a merchant's key, and a file with variables that leave removes.
func (s *Stack) Invite(ctx context.Context, out io.Writer, bin string) (leave func() error, err error) {
	merchant := &remit.Client{URL: s.URL(""), HTTP: s.HTTP}
	made, err := merchant.CreateMerchant(ctx, remit.CreateAPIKeyRequest{MerchantName: "Acme"})
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	merchant.Key = made.APIKey
	exports := append(s.Environment(), "SSL_CERT_FILE="+s.Bundle, "CURL_CA_BUNDLE="+s.Bundle, "REMIT_STACK="+StackName,
		"REMIT_CHAIN="+s.Chain.URL(), "REMIT_URL="+merchant.URL, "API="+merchant.URL, "KEY="+merchant.Key, "PATH="+bin+":$PATH")
	var text strings.Builder
	for _, variable := range exports {
		name, value, _ := strings.Cut(variable, "=")
		fmt.Fprintf(&text, "export %s=\"%s\"\n", name, value)
	}
	file := filepath.Join(s.Root, variables)
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		return nil, err
	}
	fmt.Fprintf(out, welcome, s.URL(""), merchant.Key, s.Chain.URL(), BlockTime, ConfirmationRule, s.Log, variables,
		s.Chain.Wallets()[0].Address)
	return func() error { return os.Remove(file) }, nil
}

// welcome lists the addresses. Its last lines address the stage by the variables.
//
//go:embed welcome.txt
var welcome string
