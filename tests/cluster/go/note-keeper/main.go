// A small controller on controller-runtime, as somebody would write it for any Kubernetes.
//
// Called by test_controller_runtime.py on the real API server and on `edgewright up`; it knows neither. For each Note
// it keeps a ConfigMap with the text, by server-side apply, and says so in the status and in an Event; a finalizer lets
// it say farewell. Of several that run, the holder of a Lease works.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	applymeta "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	finalizer = "notes.example.io/farewell"
	manager   = "note-keeper"
	lease     = "note-keeper"
)

var groupVersion = schema.GroupVersion{Group: "notes.example.io", Version: "v1"}

// Note is a text that somebody wants to find in a ConfigMap.
type Note struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NoteSpec   `json:"spec,omitempty"`
	Status NoteStatus `json:"status,omitempty"`
}

// NoteSpec is what a user writes.
type NoteSpec struct {
	Text string `json:"text"`
}

// NoteStatus is what the controller writes.
type NoteStatus struct {
	ConfigMap          string `json:"configMap,omitempty"`
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
}

// NoteList is a page of Notes.
type NoteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Note `json:"items"`
}

// DeepCopyObject is what the scheme needs.
func (in *Note) DeepCopyObject() runtime.Object {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject is what the scheme needs.
func (in *NoteList) DeepCopyObject() runtime.Object {
	out := *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Note, len(in.Items))
	for i := range in.Items {
		out.Items[i] = *in.Items[i].DeepCopyObject().(*Note)
	}
	return &out
}

// keeper keeps the ConfigMaps of Notes.
type keeper struct {
	client.Client
	recorder events.EventRecorder
}

// Reconcile makes one Note's ConfigMap right.
func (k *keeper) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var note Note
	if err := k.Get(ctx, request.NamespacedName, &note); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !note.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, k.release(ctx, &note)
	}
	if controllerutil.AddFinalizer(&note, finalizer) {
		if err := k.Update(ctx, &note); err != nil {
			return ctrl.Result{}, fmt.Errorf("adding the finalizer: %w", err)
		}
	}
	wanted := applycore.ConfigMap(note.Name, note.Namespace).
		WithLabels(map[string]string{"notes.example.io/of": note.Name}).
		WithOwnerReferences(applymeta.OwnerReference().
			WithAPIVersion(groupVersion.String()).WithKind("Note").WithName(note.Name).WithUID(note.UID).
			WithController(true).WithBlockOwnerDeletion(true)).
		WithData(map[string]string{"text": note.Spec.Text})
	if err := k.Apply(ctx, wanted, client.FieldOwner(manager), client.ForceOwnership); err != nil {
		return ctrl.Result{}, fmt.Errorf("applying the ConfigMap: %w", err)
	}
	if note.Status.ObservedGeneration == note.Generation {
		return ctrl.Result{}, nil
	}
	note.Status = NoteStatus{ConfigMap: note.Name, ObservedGeneration: note.Generation}
	if err := k.Status().Update(ctx, &note); err != nil {
		return ctrl.Result{}, fmt.Errorf("writing the status: %w", err)
	}
	k.recorder.Eventf(&note, nil, corev1.EventTypeNormal, "Kept", "Keep", "generation %d is kept", note.Generation)
	return ctrl.Result{}, nil
}

// release says farewell and lets a Note go.
func (k *keeper) release(ctx context.Context, note *Note) error {
	before := note.DeepCopyObject().(*Note)
	if !controllerutil.RemoveFinalizer(note, finalizer) {
		return nil
	}
	k.recorder.Eventf(note, nil, corev1.EventTypeNormal, "Released", "Release", "farewell, %s", note.Name)
	err := k.Patch(ctx, note, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func run() error {
	namespace := flag.String("namespace", "default", "where the Notes are")
	flag.Parse()
	ctrl.SetLogger(funcr.New(func(prefix, args string) { fmt.Fprintln(os.Stderr, prefix, args) }, funcr.Options{}))

	config, err := ctrl.GetConfig() // from the flag --kubeconfig, which is controller-runtime's own
	if err != nil {
		return err
	}
	scheme.Scheme.AddKnownTypes(groupVersion, &Note{}, &NoteList{})
	metav1.AddToGroupVersion(scheme.Scheme, groupVersion)
	short, period, retry := 5*time.Second, 4*time.Second, time.Second
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme.Scheme,
		Cache:                         cache.Options{DefaultNamespaces: map[string]cache.Config{*namespace: {}}},
		Metrics:                       server.Options{BindAddress: "0"},
		LeaderElection:                true,
		LeaderElectionID:              lease,
		LeaderElectionNamespace:       *namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &short,
		RenewDeadline:                 &period,
		RetryPeriod:                   &retry,
	})
	if err != nil {
		return err
	}
	keeper := &keeper{Client: mgr.GetClient(), recorder: mgr.GetEventRecorder(manager)}
	if err := ctrl.NewControllerManagedBy(mgr).For(&Note{}).Owns(&corev1.ConfigMap{}).Complete(keeper); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

func main() {
	if err := run(); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
