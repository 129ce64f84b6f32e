import org.openapitools.client.ApiClient;
import org.openapitools.client.api.PaymentsApi;
import org.openapitools.client.model.AmountInput;
import org.openapitools.client.model.Payment;
import org.openapitools.client.model.SendPaymentRequest;

public class Main {
  public static void main(String[] args) throws Exception {
    ApiClient client = new ApiClient();
    client.updateBaseUri(System.getenv("REMIT_URL"));
    client.setRequestInterceptor(r -> r.header("x-api-key", System.getenv("REMIT_API_KEY")));
    PaymentsApi api = new PaymentsApi(client);
    SendPaymentRequest body = new SendPaymentRequest().amount(new AmountInput("5000000000"))
        .to("0x2222222222222222222222222222222222222222");
    Payment paid = api.sendPayment(body, "openapi-generator-java", null);
    System.out.println(paid.getAmountText() + " " + api.getTransaction(paid.getTxHash()).getAmountText());
  }
}
