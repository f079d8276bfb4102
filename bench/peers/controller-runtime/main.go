// The benchmark's peer on controller-runtime: what a Go operator with typed objects does for the same work.
//
// Called by the driver in bench/ on a namespace that already holds the objects. It reconciles each once, as ours does: one
// merge patch on the status subresource where the status is not there yet. It ends when the last patch is answered, and
// prints one line of JSON. It never creates or deletes anything.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// Bench is the custom resource that the benchmark is about.
type Bench struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   BenchSpec   `json:"spec,omitempty"`
	Status BenchStatus `json:"status,omitempty"`
}

// BenchSpec is what the driver writes.
type BenchSpec struct {
	Index   int64  `json:"index"`
	Payload string `json:"payload,omitempty"`
}

// BenchStatus is what a peer writes.
type BenchStatus struct {
	Phase              string `json:"phase,omitempty"`
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
}

// BenchList is a page of them.
type BenchList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Bench `json:"items"`
}

// DeepCopy copies by value and metadata by hand, as generated code does.
func (in *Bench) DeepCopy() *Bench {
	out := new(Bench)
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return out
}

// DeepCopyObject is what the scheme needs.
func (in *Bench) DeepCopyObject() runtime.Object { return in.DeepCopy() }

// DeepCopyObject is what the scheme needs.
func (in *BenchList) DeepCopyObject() runtime.Object {
	out := new(BenchList)
	*out = *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	if in.Items != nil {
		out.Items = make([]Bench, len(in.Items))
		for i := range in.Items {
			out.Items[i] = *in.Items[i].DeepCopy()
		}
	}
	return out
}

var groupVersion = schema.GroupVersion{Group: "bench.edgewright.dev", Version: "v1"}

// reconciler writes each object's status once and counts what has been answered.
type reconciler struct {
	client   client.Client
	expected int64
	requests atomic.Int64
	done     atomic.Int64
	started  time.Time
	result   map[string]any
	failure  error
	stop     context.CancelFunc
}

// Reconcile reads the cache, and patches the status where it does not say yet what it should.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var bench Bench
	if err := r.client.Get(ctx, request.NamespacedName, &bench); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if bench.Status.Phase == "Done" && bench.Status.ObservedGeneration == bench.Generation {
		return ctrl.Result{}, nil
	}
	before := bench.DeepCopy()
	bench.Status = BenchStatus{Phase: "Done", ObservedGeneration: bench.Generation}
	r.requests.Add(1)
	if err := r.client.Status().Patch(ctx, &bench, client.MergeFrom(before)); err != nil {
		return ctrl.Result{}, err
	}
	if r.done.Add(1) == r.expected { // one worker sees this, once
		r.result, r.failure = r.measure()
		r.stop()
	}
	return ctrl.Result{}, nil
}

func run() error {
	// A set of our own: controller-runtime puts a kubeconfig flag into the common one.
	flags := flag.NewFlagSet("controller-runtime", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "the `file` that says where the API server is")
	namespace := flags.String("namespace", "", "the namespace that holds the objects")
	objects := flags.Int64("objects", 0, "how many objects there are")
	workers := flags.Int("workers", 16, "how many are reconciled at once")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	log.SetLogger(logr.Discard())

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1 // no limit on the client's side: the server is what is measured

	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(groupVersion, &Bench{}, &BenchList{})
	metav1.AddToGroupVersion(scheme, groupVersion)

	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Metrics: server.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{*namespace: {}}},
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	r := &reconciler{client: manager.GetClient(), expected: *objects, stop: stop}
	err = ctrl.NewControllerManagedBy(manager).
		For(&Bench{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: *workers}).
		Complete(r)
	if err != nil {
		return err
	}
	r.started = time.Now()
	if err := manager.Start(ctx); err != nil {
		return err
	}
	if r.failure != nil {
		return r.failure
	}
	return json.NewEncoder(os.Stdout).Encode(r.result)
}

// measure says what the work has cost up to now.
func (r *reconciler) measure() (map[string]any, error) {
	elapsed := time.Since(r.started)
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return nil, err
	}
	memory, err := peakMemory()
	return map[string]any{
		"seconds":     elapsed.Seconds(),
		"cpu_seconds": seconds(usage.Utime) + seconds(usage.Stime),
		"peak_rss_mb": memory,
		"requests":    r.requests.Load(),
	}, err
}

// peakMemory is the most memory in MB that this program has held. Not ru_maxrss: that one is inherited through fork and exec.
func peakMemory() (float64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmHWM:" {
			kilobytes, err := strconv.ParseFloat(fields[1], 64)
			return kilobytes / 1024, err
		}
	}
	return 0, errors.New("/proc/self/status has no VmHWM")
}

func seconds(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "controller-runtime:", err)
		os.Exit(1)
	}
}
