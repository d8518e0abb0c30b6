module steps

go 1.19

require step v1.0.0

replace step => ../package/go
