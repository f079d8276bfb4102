// A worker for the published gateway process (yggd) that registers a device and sends one heartbeat through it.
//
// Tests of our gateway run it next to yggd. It writes each answer of the gateway as a line of JSON.
package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"time"

	pb "github.com/redhatinsights/yggdrasil/protocol"
	"google.golang.org/grpc"
)

type worker struct {
	pb.UnimplementedWorkerServer
}

func (worker) Send(_ context.Context, data *pb.Data) (*pb.Response, error) {
	fmt.Printf("{\"received\":%q}\n", data.GetDirective())
	return &pb.Response{}, nil
}

func (worker) NotifyEvent(_ context.Context, event *pb.EventNotification) (*pb.EventReceipt, error) {
	fmt.Printf("{\"event\":%q}\n", event.GetName().String())
	return &pb.EventReceipt{}, nil
}

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

func send(dispatcher pb.DispatcherClient, directive string, content any) map[string]any {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	data := &pb.Data{MessageId: "m", Directive: directive, Content: must(json.Marshal(content))}
	response := must(dispatcher.Send(ctx, data))
	fmt.Printf("{\"sent\":%q,\"answer\":%s}\n", directive, response.GetResponse())
	var answer map[string]any
	must(0, json.Unmarshal(response.GetResponse(), &answer))
	return answer
}

func main() {
	socket, certificate, key := os.Args[1], os.Args[2], os.Args[3]
	connection := must(grpc.Dial(socket, grpc.WithInsecure(), grpc.WithBlock(), grpc.WithTimeout(30*time.Second),
		grpc.WithContextDialer(func(_ context.Context, address string) (net.Conn, error) {
			return net.Dial("unix", address)
		})))
	dispatcher := pb.NewDispatcherClient(connection)
	accepted := must(dispatcher.Register(context.Background(),
		&pb.RegistrationRequest{Handler: "device", Pid: int64(os.Getpid())}))
	listener := must(net.Listen("unix", accepted.GetAddress()))
	server := grpc.NewServer()
	pb.RegisterWorkerServer(server, worker{})
	go func() { _ = server.Serve(listener) }()

	private := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "deviceID"}}
	request := must(x509.CreateCertificateRequest(rand.Reader, template, private))
	answer := send(dispatcher, "registration", map[string]any{
		"hardware":            map[string]any{"hostname": "published"},
		"certificate_request": encoded("CERTIFICATE REQUEST", request),
	})
	body := answer["Body"].(map[string]any)["content"].(map[string]any)
	// In place, certificate first: that is what the published process looks for.
	must(0, os.WriteFile(certificate, []byte(body["certificate"].(string)), 0o600))
	must(0, os.WriteFile(key, []byte(encoded("EC PRIVATE KEY", must(x509.MarshalECPrivateKey(private)))), 0o600))
	for range 60 {
		time.Sleep(time.Second)
		if send(dispatcher, "heartbeat", map[string]any{"status": "up", "version": "1"})["StatusCode"] == 200.0 {
			break
		}
	}
	select {} // it goes on until the test ends it
}

func encoded(kind string, content []byte) string {
	var text bytes.Buffer
	must(0, pem.Encode(&text, &pem.Block{Type: kind, Bytes: content}))
	return text.String()
}
