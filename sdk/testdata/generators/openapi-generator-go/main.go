package main

import (
	"context"
	"fmt"
	"os"

	"generated/gen"
)

func main() {
	configuration := gen.NewConfiguration()
	configuration.Servers = gen.ServerConfigurations{{URL: os.Getenv("REMIT_URL")}}
	configuration.AddDefaultHeader("x-api-key", os.Getenv("REMIT_API_KEY"))
	api := gen.NewAPIClient(configuration).PaymentsAPI
	amount := "5000000000"
	body := gen.NewSendPaymentRequest(gen.AmountInput{String: &amount})
	body.SetTo("0x2222222222222222222222222222222222222222")
	paid, _, err := api.SendPayment(context.Background()).IdempotencyKey("openapi-generator-go").SendPaymentRequest(*body).Execute()
	if err != nil {
		panic(err)
	}
	read, _, err := api.GetTransaction(context.Background(), paid.TxHash).Execute()
	if err != nil {
		panic(err)
	}
	fmt.Println(paid.AmountText, read.AmountText)
}
