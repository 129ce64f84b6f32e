package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"generated/gen"
)

func main() {
	key := func(_ context.Context, r *http.Request) error {
		r.Header.Set("x-api-key", os.Getenv("REMIT_API_KEY"))
		return nil
	}
	api, err := gen.NewClientWithResponses(os.Getenv("REMIT_URL"), gen.WithRequestEditorFn(key))
	if err != nil {
		panic(err)
	}
	to, intent := "0x2222222222222222222222222222222222222222", "oapi-codegen"
	paid, err := api.SendPaymentWithResponse(context.Background(), &gen.SendPaymentParams{IdempotencyKey: &intent},
		gen.SendPaymentRequest{Amount: "5000000000", To: &to})
	if err != nil || paid.JSON201 == nil {
		panic(fmt.Sprint(paid, err))
	}
	read, err := api.GetTransactionWithResponse(context.Background(), paid.JSON201.TxHash)
	if err != nil || read.JSON200 == nil {
		panic(fmt.Sprint(read, err))
	}
	fmt.Println(paid.JSON201.AmountText, read.JSON200.AmountText)
}
