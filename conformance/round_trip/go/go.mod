module firstnan.example/roundtrip

go 1.23.0

require (
	firstnan.example/conformance v0.0.0
	firstnan.example/types v0.0.0
)

replace (
	firstnan.example/conformance => ../../go
	firstnan.example/types => ../../../types/go
)
