module edgewright.dev/bench/edge-load

go 1.26
