module firstnan.example/types

go 1.23.0
