// Upstream's route controller, with a cloud in memory whose every call takes as long as it is told.
//
// It prints a line for each route that is made: the nanoseconds of the epoch, and the destination.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"sync"
	"time"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/controllers/route"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	_ "k8s.io/controller-manager/pkg/features/register"
)

type memory struct {
	mutex   sync.Mutex
	latency time.Duration
	routes  map[string]*cloudprovider.Route
}

func (m *memory) ListRoutes(context.Context, string) ([]*cloudprovider.Route, error) {
	time.Sleep(m.latency)
	m.mutex.Lock()
	defer m.mutex.Unlock()
	routes := make([]*cloudprovider.Route, 0, len(m.routes))
	for _, route := range m.routes {
		routes = append(routes, route)
	}
	return routes, nil
}

func (m *memory) CreateRoute(_ context.Context, _ string, _ string, route *cloudprovider.Route) error {
	time.Sleep(m.latency)
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.routes[route.DestinationCIDR] = route
	fmt.Printf("%d %s\n", time.Now().UnixNano(), route.DestinationCIDR)
	return nil
}

func (m *memory) DeleteRoute(_ context.Context, _ string, route *cloudprovider.Route) error {
	time.Sleep(m.latency)
	m.mutex.Lock()
	defer m.mutex.Unlock()
	delete(m.routes, route.DestinationCIDR)
	return nil
}


func main() {
	kubeconfig := flag.String("kubeconfig", "", "")
	cidr := flag.String("cluster-cidr", "10.0.0.0/8", "")
	latency := flag.Duration("latency", 50*time.Millisecond, "")
	watch := flag.Bool("watch", false, "")
	flag.Parse()
	gate := fmt.Sprintf("CloudControllerManagerWatchBasedRoutesReconciliation=%t", *watch)
	must(utilfeature.DefaultMutableFeatureGate.Set(gate))
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	must(err)
	config.QPS, config.Burst = 1000, 1000
	client, err := kubernetes.NewForConfig(config)
	must(err)
	_, cluster, err := net.ParseCIDR(*cidr)
	must(err)
	factory := informers.NewSharedInformerFactory(client, 12*time.Hour)
	provider := &memory{latency: *latency, routes: map[string]*cloudprovider.Route{}}
	controller, err := route.New(provider, client, factory.Core().V1().Nodes(), "bench", []*net.IPNet{cluster})
	must(err)
	ctx := context.Background()
	factory.Start(ctx.Done())
	fmt.Println("started")
	controller.Run(ctx, 10*time.Second, controllersmetrics.NewControllerManagerMetrics("bench"))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
