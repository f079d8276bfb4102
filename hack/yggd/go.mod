// The published gateway process of Flotta's agents (yggd), which tests/cluster/edge let register with our gateway.
module edgewright.dev/hack/yggd

go 1.26.0

tool github.com/redhatinsights/yggdrasil/cmd/yggd

require (
	github.com/redhatinsights/yggdrasil v0.0.0-20220323125707-cdde836c519a
	google.golang.org/grpc v1.34.0
)

require (
	git.sr.ht/~spc/go-log v0.0.0-20210409014304-ce6a6f3602dc // indirect
	github.com/BurntSushi/toml v0.3.1 // indirect
	github.com/cpuguy83/go-md2man/v2 v2.0.0 // indirect
	github.com/eclipse/paho.mqtt.golang v1.3.5 // indirect
	github.com/golang/protobuf v1.4.2 // indirect
	github.com/google/uuid v1.1.2 // indirect
	github.com/gorilla/websocket v1.4.2 // indirect
	github.com/pelletier/go-toml v1.9.3 // indirect
	github.com/rjeczalik/notify v0.9.2 // indirect
	github.com/russross/blackfriday/v2 v2.0.1 // indirect
	github.com/shurcooL/sanitized_anchor_name v1.0.0 // indirect
	github.com/urfave/cli/v2 v2.3.0 // indirect
	golang.org/x/net v0.0.0-20201031054903-ff519b6c9102 // indirect
	golang.org/x/sys v0.0.0-20200930185726-fdedc70b468f // indirect
	golang.org/x/text v0.3.3 // indirect
	google.golang.org/genproto v0.0.0-20200526211855-cb27e3aa2013 // indirect
	google.golang.org/protobuf v1.25.0 // indirect
	gopkg.in/yaml.v2 v2.2.3 // indirect
)
