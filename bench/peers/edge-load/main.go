// The load of bench/gateway.py: agents of Linux edge devices, each with a certificate and a connection of its own.
//
// It reads orders from its input, one per line, and prints one line of JSON for each: "connect FROM TO" (these agents
// shake hands), "greet FROM TO" (each asks for its configuration and sends a heartbeat: a connection that never asks
// anything is cut), "load SECONDS INTERVAL" (two questions per INTERVAL seconds and a heartbeat a minute, as published
// agents do), "wait" (every agent asks for news and waits), "heard" (when the last of them had its answer), "end".
package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const prefix = "/api/flotta-management/v1"

type agent struct {
	name   string
	config *tls.Config
	conn   net.Conn
	reader *bufio.Reader
	etag   string
}

func (a *agent) dial(server string) error {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 60 * time.Second}, "tcp", server, a.config)
	if err != nil {
		return err
	}
	a.conn, a.reader = conn, bufio.NewReaderSize(conn, 4096)
	return nil
}

func (a *agent) ask(method, path, headers string, body []byte, limit time.Duration) (int, int, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s %s/%s HTTP/1.1\r\nHost: gateway\r\n%s", method, prefix, path, headers)
	if body != nil {
		fmt.Fprintf(&out, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	out.WriteString("\r\n")
	out.Write(body)
	a.conn.SetDeadline(time.Now().Add(limit))
	if _, err := a.conn.Write(out.Bytes()); err != nil {
		return 0, 0, err
	}
	response, err := http.ReadResponse(a.reader, nil)
	if err != nil {
		return 0, 0, err
	}
	read, err := io.Copy(io.Discard, response.Body)
	response.Body.Close()
	if tag := response.Header.Get("Etag"); tag != "" {
		a.etag = tag
	}
	return response.StatusCode, int(read), err
}

func (a *agent) heartbeat() (int, int, error) {
	body := []byte(`{"type":"data","message_id":"m","response_to":"","version":1,"sent":"2026-01-01T00:00:00Z",` +
		`"directive":"heartbeat","metadata":null,"content":{"status":"up","version":"1","workloads":[]}}`)
	return a.ask("POST", "data/"+a.name+"/out", "", body, time.Minute)
}

type fleet struct {
	server string
	agents []*agent
	last   atomic.Int64
	heard  atomic.Int64
	bytes  atomic.Int64
}

func (f *fleet) each(from, to int, do func(*agent) error) int64 {
	var failed atomic.Int64
	var group sync.WaitGroup
	slots := make(chan struct{}, 64)
	for _, one := range f.agents[from:to] {
		slots <- struct{}{}
		group.Add(1)
		go func() {
			defer group.Done()
			if do(one) != nil {
				failed.Add(1)
			}
			<-slots
		}()
	}
	group.Wait()
	return failed.Load()
}

func (f *fleet) connect(from, to int) map[string]any {
	begun := time.Now()
	failed := f.each(from, to, func(a *agent) error { return a.dial(f.server) })
	return map[string]any{"connected": int64(to-from) - failed, "failed": failed, "seconds": time.Since(begun).Seconds()}
}

func (f *fleet) greet(from, to int) map[string]any {
	failed := f.each(from, to, func(a *agent) error {
		if a.conn == nil {
			return nil
		}
		if _, _, err := a.ask("GET", "data/"+a.name+"/in", "", nil, time.Minute); err != nil {
			return err
		}
		_, _, err := a.heartbeat()
		return err
	})
	return map[string]any{"failed": failed}
}

func (f *fleet) load(seconds, interval float64) map[string]any {
	var group sync.WaitGroup
	var lock sync.Mutex
	var times []float64
	var errors, heartbeats atomic.Int64
	before := used()
	begun := time.Now()
	end := begun.Add(time.Duration(seconds * float64(time.Second)))
	for number, one := range f.agents {
		if one.conn == nil {
			continue
		}
		group.Add(1)
		go func() {
			defer group.Done()
			share := float64(number) / float64(len(f.agents))
			next := begun.Add(time.Duration(share * interval * float64(time.Second)))
			beat := begun.Add(time.Duration(share * 60 * float64(time.Second)))
			var own []float64
			for next.Before(end) {
				time.Sleep(time.Until(next))
				orders := []func() (int, int, error){
					func() (int, int, error) { return one.ask("GET", "data/"+one.name+"/in", "", nil, time.Minute) },
					func() (int, int, error) { return one.ask("GET", "control/"+one.name+"/in", "", nil, time.Minute) },
				}
				if !time.Now().Before(beat) {
					beat = beat.Add(time.Minute)
					heartbeats.Add(1)
					orders = append(orders, one.heartbeat)
				}
				for _, order := range orders {
					asked := time.Now()
					code, _, err := order()
					if err != nil || code >= 400 {
						errors.Add(1)
						if err != nil {
							if one.dial(f.server) != nil {
								return
							}
						}
						continue
					}
					own = append(own, time.Since(asked).Seconds())
				}
				next = next.Add(time.Duration(interval * float64(time.Second)))
			}
			lock.Lock()
			times = append(times, own...)
			lock.Unlock()
		}()
	}
	group.Wait()
	took := time.Since(begun).Seconds()
	sort.Float64s(times)
	result := map[string]any{"requests": len(times), "errors": errors.Load(), "heartbeats": heartbeats.Load(),
		"seconds": took, "cpu": used() - before}
	if len(times) > 0 {
		result["p50"], result["p99"] = times[len(times)/2], times[len(times)*99/100]
	}
	return result
}

func (f *fleet) wait() map[string]any {
	f.heard.Store(0)
	var sent sync.WaitGroup
	for _, one := range f.agents {
		if one.conn == nil {
			continue
		}
		sent.Add(1)
		go func() {
			headers := "If-None-Match: " + one.etag + "\r\nPrefer: wait=300\r\n"
			sent.Done()
			code, read, err := one.ask("GET", "data/"+one.name+"/in", headers, nil, 6*time.Minute)
			if err == nil && code == 200 {
				f.bytes.Store(int64(read))
				f.last.Store(max(f.last.Load(), time.Now().UnixNano()))
				f.heard.Add(1)
			}
		}()
	}
	sent.Wait()
	return map[string]any{"asked": len(f.agents)}
}

func used() float64 {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return float64(usage.Utime.Sec+usage.Stime.Sec) + float64(usage.Utime.Usec+usage.Stime.Usec)/1e6
}

func read(dir, server string) (*fleet, error) {
	key, err := os.ReadFile(filepath.Join(dir, "key.pem"))
	if err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil {
		return nil, err
	}
	all, err := os.ReadFile(filepath.Join(dir, "certificates.pem"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	found := &fleet{server: server}
	for block, rest := pem.Decode(all); block != nil; block, rest = pem.Decode(rest) {
		pair, err := tls.X509KeyPair(pem.EncodeToMemory(block), key)
		if err != nil {
			return nil, err
		}
		leaf, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		config := &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13,
			ServerName: "project-flotta.io"}
		found.agents = append(found.agents, &agent{name: leaf.Subject.CommonName, config: config})
	}
	return found, nil
}

func number(word string) int {
	found, err := strconv.Atoi(word)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return found
}

func main() {
	dir := flag.String("dir", "", "where ca.pem, key.pem and certificates.pem are")
	server := flag.String("server", "", "the gateway")
	flag.Parse()
	all, err := read(*dir, *server)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	orders := bufio.NewScanner(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for orders.Scan() {
		words := strings.Fields(orders.Text())
		switch words[0] {
		case "connect":
			out.Encode(all.connect(number(words[1]), number(words[2])))
		case "greet":
			out.Encode(all.greet(number(words[1]), number(words[2])))
		case "load":
			seconds, _ := strconv.ParseFloat(words[1], 64)
			interval, _ := strconv.ParseFloat(words[2], 64)
			out.Encode(all.load(seconds, interval))
		case "wait":
			out.Encode(all.wait())
		case "heard":
			out.Encode(map[string]any{"heard": all.heard.Load(), "last": float64(all.last.Load()) / 1e9, "bytes": all.bytes.Load()})
		case "end":
			return
		}
	}
}
