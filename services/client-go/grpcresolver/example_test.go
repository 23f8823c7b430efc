package grpcresolver_test

import (
	"log"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	borough "example.invalid/borough/services/client-go"
	"example.invalid/borough/services/client-go/grpcresolver"
)

func ExampleNew() {
	client, err := borough.New(borough.ConfigFromEnvironment())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	conn, err := grpc.NewClient("borough:///search.ann.alpha?port=grpc",
		grpc.WithResolvers(grpcresolver.New(client)),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
}
