// The load of bench/gateway.py: agents of Linux edge devices, each with a certificate and a connection of its own.
//
// It reads orders from its input, one per line, and prints one line of JSON for each: "connect FROM TO" (these agents
// shake hands), "greet FROM TO" (each asks for its configuration and sends a heartbeat: a connection that never asks
// anything is cut), "keep FROM TO" (those that have said nothing for a while ask for their configuration: a connection
// that is idle is closed, and no agent is silent for long), "load SECONDS INTERVAL" (two questions per INTERVAL seconds
// and a heartbeat a minute, as published agents do), "wait" (every agent asks for news and waits), "heard" (when the last of them had its answer), "end".
// What went wrong since the order before is counted in "failures", by what was done and how it failed.
package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
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

const silence = 20 * time.Second

type agent struct {
	name   string
	config *tls.Config
	conn   net.Conn
	reader *bufio.Reader
	etag   string
	asked  time.Time
}

func (a *agent) dial(server string) error {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 60 * time.Second}, "tcp", server, a.config)
	if err != nil {
		return err
	}
	a.conn, a.reader = conn, bufio.NewReaderSize(conn, 4096)
	return nil
}

// A status that refuses is an error like a connection that is cut.
func (a *agent) ask(method, channel, headers string, body []byte, limit time.Duration) (int, error) {
	var out bytes.Buffer
	channel, direction, _ := strings.Cut(channel, "/")
	fmt.Fprintf(&out, "%s %s/%s/%s/%s HTTP/1.1\r\nHost: gateway\r\n%s", method, prefix, channel, a.name, direction, headers)
	if body != nil {
		fmt.Fprintf(&out, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	out.WriteString("\r\n")
	out.Write(body)
	a.asked = time.Now()
	a.conn.SetDeadline(a.asked.Add(limit))
	if _, err := a.conn.Write(out.Bytes()); err != nil {
		return 0, err
	}
	response, err := http.ReadResponse(a.reader, nil)
	if err != nil {
		return 0, err
	}
	read, err := io.Copy(io.Discard, response.Body)
	response.Body.Close()
	if tag := response.Header.Get("Etag"); tag != "" {
		a.etag = tag
	}
	if err == nil && response.StatusCode >= 300 {
		err = refused(response.StatusCode)
	}
	return int(read), err
}

type refused int

func (code refused) Error() string { return fmt.Sprintf("status %d", int(code)) }

func (a *agent) configuration() error {
	_, err := a.ask("GET", "data/in", "", nil, time.Minute)
	return err
}

func (a *agent) control() error {
	_, err := a.ask("GET", "control/in", "", nil, time.Minute)
	return err
}

func (a *agent) heartbeat() error {
	body := []byte(`{"type":"data","message_id":"m","response_to":"","version":1,"sent":"2026-01-01T00:00:00Z",` +
		`"directive":"heartbeat","metadata":null,"content":{"status":"up","version":"1","workloads":[]}}`)
	_, err := a.ask("POST", "data/out", "", body, time.Minute)
	return err
}

// What an agent does, by the name under which it is counted where it fails.
type step struct {
	name string
	do   func() error
}

// How often each step failed in which way.
type failures struct {
	lock  sync.Mutex
	kinds map[string]int
}

func (f *failures) count(phase, what string, err error) {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner // what is around it names the ports, which differ
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	f.kinds[phase+": "+what+": "+err.Error()]++
}

func (f *failures) taken() map[string]int {
	f.lock.Lock()
	defer f.lock.Unlock()
	found := f.kinds
	f.kinds = map[string]int{}
	return found
}

type fleet struct {
	server string
	agents []*agent
	last   atomic.Int64
	heard  atomic.Int64
	bytes  atomic.Int64
	failed failures
}

func (f *fleet) each(from, to int, do func(*agent)) {
	var group sync.WaitGroup
	slots := make(chan struct{}, 64)
	for _, one := range f.agents[from:to] {
		slots <- struct{}{}
		group.Add(1)
		go func() {
			defer group.Done()
			do(one)
			<-slots
		}()
	}
	group.Wait()
}

func (f *fleet) dial(phase string, a *agent) bool {
	err := a.dial(f.server)
	if err != nil {
		a.conn = nil
		f.failed.count(phase, "handshake", err)
	}
	return err == nil
}

func (f *fleet) connect(from, to int) map[string]any {
	var connected atomic.Int64
	begun := time.Now()
	f.each(from, to, func(a *agent) {
		if f.dial("connect", a) {
			connected.Add(1)
		}
	})
	return map[string]any{"connected": connected.Load(), "seconds": time.Since(begun).Seconds()}
}

func (f *fleet) greet(from, to int) map[string]any {
	f.each(from, to, func(a *agent) {
		if a.conn != nil {
			f.follow("greet", a, step{"configuration", a.configuration}, step{"heartbeat", a.heartbeat})
		}
	})
	return map[string]any{}
}

func (f *fleet) keep(from, to int) map[string]any {
	f.each(from, to, func(a *agent) {
		if a.conn != nil && time.Since(a.asked) > silence {
			f.follow("keep", a, step{"configuration", a.configuration})
		}
	})
	return map[string]any{}
}

// How long each of these steps took that did not fail; after one that did, the agent connects again.
func (f *fleet) follow(phase string, a *agent, steps ...step) []float64 {
	var times []float64
	for _, each := range steps {
		asked := time.Now()
		err := each.do()
		if err == nil {
			times = append(times, time.Since(asked).Seconds())
			continue
		}
		f.failed.count(phase, each.name, err)
		var code refused
		if errors.As(err, &code) {
			continue
		}
		a.conn.Close()
		if !f.dial(phase, a) {
			break
		}
	}
	return times
}

func (f *fleet) load(seconds, interval float64) map[string]any {
	var group sync.WaitGroup
	var lock sync.Mutex
	var times []float64
	var heartbeats atomic.Int64
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
			for next.Before(end) && one.conn != nil {
				time.Sleep(time.Until(next))
				steps := []step{{"configuration", one.configuration}, {"control", one.control}}
				if !time.Now().Before(beat) {
					beat = beat.Add(time.Minute)
					heartbeats.Add(1)
					steps = append(steps, step{"heartbeat", one.heartbeat})
				}
				own = append(own, f.follow("load", one, steps...)...)
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
	result := map[string]any{"requests": len(times), "heartbeats": heartbeats.Load(), "seconds": took,
		"cpu": used() - before}
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
			read, err := one.ask("GET", "data/in", headers, nil, 6*time.Minute)
			if err != nil {
				f.failed.count("wait", "news", err)
				return
			}
			f.bytes.Store(int64(read))
			f.last.Store(max(f.last.Load(), time.Now().UnixNano()))
			f.heard.Add(1)
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
	found := &fleet{server: server, failed: failures{kinds: map[string]int{}}}
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
		var came map[string]any
		switch words[0] {
		case "connect":
			came = all.connect(number(words[1]), number(words[2]))
		case "greet":
			came = all.greet(number(words[1]), number(words[2]))
		case "keep":
			came = all.keep(number(words[1]), number(words[2]))
		case "load":
			seconds, _ := strconv.ParseFloat(words[1], 64)
			interval, _ := strconv.ParseFloat(words[2], 64)
			came = all.load(seconds, interval)
		case "wait":
			came = all.wait()
		case "heard":
			came = map[string]any{"heard": all.heard.Load(), "last": float64(all.last.Load()) / 1e9, "bytes": all.bytes.Load()}
		case "end":
			return
		}
		came["failures"] = all.failed.taken()
		out.Encode(came)
	}
}
